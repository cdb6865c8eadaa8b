"""The dashboard's addresses."""

app_name = "dashboard"
urlpatterns: list = []
