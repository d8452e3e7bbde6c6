"""What two agents or more need: optimisers and steps, policies, running scales, rounds of on-policy data."""
