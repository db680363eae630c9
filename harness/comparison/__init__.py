"""Exporters side by side on torch's OpInfo samples: who is right, who is silently wrong, who refuses, who crashes."""
