"""HTTP service kit: embedded servers, problem answers, audit lines, body limits."""
