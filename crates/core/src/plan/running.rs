//! Whatever should run, runs: started again after a crash, restarted when it hangs or trusts a lost CA.

mod keep_running;
mod lost_ca;
mod silent;
mod stuck;
