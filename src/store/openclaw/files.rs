//! The spring format: `agents/<id>/sessions/sessions.json` and JSON lines (D-3 to D-8, K-16, L-70).
