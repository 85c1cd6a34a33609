"""Run plans on connections that belong to the app (`connection=`): never begin, commit or roll back there."""
