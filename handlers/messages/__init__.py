"""JSON that is stored or sent: payloads of derived events, stored results, bodies of webhooks."""
