"""Transfer: WECHSEL and every other initialisation. Evidence in, a grafted model out."""
