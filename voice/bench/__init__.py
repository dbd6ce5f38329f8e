"""Measuring the service: answers, turns, machines."""
