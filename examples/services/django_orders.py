# ruff: noqa: INP001 - a script
"""An order service with Django in one file: the model and the message are one transaction.

pip install django "psycopg[binary]" windrow
DATABASE_NAME=shop DATABASE_HOST=localhost DATABASE_PORT=5432 DATABASE_USER=app python django_orders.py runserver
"""

import json
import os
import sys

import django
from django.conf import settings
from django.core.management import execute_from_command_line
from django.db import connection, models, transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from windrow import Outbox
from windrow.outbox import json_message

settings.configure(
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    SECRET_KEY=os.environ.get("SECRET_KEY", "for this example"),
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            **{key: os.environ.get(f"DATABASE_{key}", "") for key in ("NAME", "HOST", "PORT", "USER", "PASSWORD")},
        }
    },
)
django.setup()
outbox = Outbox()


class Order(models.Model):
    customer = models.TextField()
    total = models.IntegerField()

    class Meta:
        app_label = "orders"
        db_table = "django_orders"

    def __str__(self) -> str:
        return f"order {self.pk} of {self.customer}"


@csrf_exempt
@require_POST
@transaction.atomic
def place(request: HttpRequest) -> JsonResponse:
    """Whatever fails in here, neither the order nor its message is there."""
    given = json.loads(request.body)
    order = Order.objects.create(customer=given["customer"], total=given["total"])
    placed = {"order": order.pk, "customer": order.customer, "total": order.total}
    outbox.write(connection, json_message("orders", placed, key=order.customer))
    if order.total <= 0:
        raise ValueError("an order has to be worth something")
    return JsonResponse(placed, status=201)


urlpatterns = [path("orders", place)]


def create_tables() -> None:
    with connection.schema_editor() as editor:
        editor.create_model(Order)


if __name__ == "__main__":
    execute_from_command_line(sys.argv)
