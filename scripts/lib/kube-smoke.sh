smoke() { die "not yet"; }
