"""The controller of Model and ClusterModel."""
