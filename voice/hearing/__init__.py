"""From a recogniser's hypotheses to a transcript that only grows. Pure but for ``rescoring``: no audio, no clock."""
