"""Code that several agents share: optimisers and steps, policies, running scales, rounds of on-policy data."""
