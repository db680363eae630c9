"""Tests of the harness: right results pass, wrong ones fail, and no record is lost."""
