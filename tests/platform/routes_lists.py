"""Lists to choose from: volumes, datasets, models, images; each by pages."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel

from tests.platform import models, models_lists
from tests.platform.envelope import Refusal, of, one, page_of, rows
from tests.platform.names import TENANT

router = APIRouter()
RESOURCES = "/resource-service/v1"


class Page(BaseModel):
    """Which part of a list is asked for."""

    number: int
    size: int

    def of(self, found: list[Any]) -> list[Any]:
        """Return that part."""
        return page_of(found, self.number, self.size)


def _page(
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    page_size: Annotated[int, Query(alias="pageSize", ge=1, le=100_000)] = 15,
) -> Page:
    return Page(number=page, size=page_size)


Paged = Annotated[Page, Depends(_page)]


def _listed(request: Request, name: str) -> list[dict[str, Any]]:
    return of(request).lists.get(name, [])


@router.get(f"{RESOURCES}/volumes")
async def volumes(
    request: Request, page: Paged, name: str = "", tenant: Annotated[str, Query(alias="tenantName")] = ""
) -> models_lists.Volumes:
    """Return volumes in `data`, with the counts beside it, and the other spelling of the ids."""
    found = [row for row in _listed(request, "volumes") if name in row["name"]] if tenant in ("", TENANT) else []
    ids = of(request).ids()
    counts = {"total": len(found), "page": page.number, "pageSize": page.size}
    told = {"status": True, "msg": "success", "request_id": ids["requestID"], "trace_id": ids["traceID"]}
    return models_lists.Volumes.model_validate({**told, **counts, "data": page.of(found)})


@router.get(f"{RESOURCES}/user-volumes")
async def user_volumes(request: Request) -> models.One[list[models_lists.UserVolume]]:
    """Return the caller's volumes."""
    found = [
        {
            "id": row["id"],
            "name": row["name"],
            "pvc": row.get("pvcName", ""),
            "readOnly": row.get("authorizedUsers", {}).get(request.state.user, {}).get("readOnly", False),
            "namespace": row.get("namespace", ""),
            "fsId": row.get("fsId", ""),
        }
        for row in _listed(request, "volumes")
    ]
    return models.One[list[models_lists.UserVolume]].model_validate(one(of(request), found))


@router.get(f"{RESOURCES}/volume/quota")
async def volume_quota(request: Request) -> dict[str, Any]:
    """Return what may still be taken of each kind of storage."""
    quota = {"fsType": "fs", "avail": 100, "price": 0.0, "concurrency": "1", "quantityUnit": "GiB"}
    return one(of(request), [quota])


@router.get(f"{RESOURCES}/volume/quota-detail")
async def volume_quota_detail(request: Request) -> dict[str, Any]:
    """Return the storage of each place in numbers."""
    place = {"region": request.headers["X-Region"], "cluster": request.headers["X-Cluster"], "fsType": "fs"}
    return one(of(request), [{**place, "totalQuota": "200", "usedQuota": "100", "availQuota": "100"}])


@router.get(f"{RESOURCES}/volume/{{number}}")
async def volume(request: Request, number: int) -> models.One[models_lists.VolumeRow]:
    """Return one volume."""
    found = next((row for row in _listed(request, "volumes") if row["id"] == number), None)
    if found is None:
        raise Refusal(404, "volume not found")
    return models.One[models_lists.VolumeRow].model_validate(one(of(request), found))


@router.get("/data-service/v1/datasets")
async def datasets(
    request: Request, page: Paged, name: str = "", variant: str = ""
) -> models.One[list[models_lists.Dataset]]:
    """Return datasets in `data`, without counts."""
    found = [
        row
        for row in _listed(request, "datasets")
        if name in row["name"] and variant in ("", "preset" if row.get("isPreset") else "custom")
    ]
    return models.One[list[models_lists.Dataset]].model_validate(one(of(request), page.of(found)))


@router.get("/model-service/v1/preset-models")
async def preset_models(request: Request, page: Paged, name: str = "") -> models.Rows[models_lists.Model]:
    """Return preset models."""
    return _models(request, page, name, preset=True)


@router.get("/model-service/v1/models")
async def own_models(request: Request, page: Paged, name: str = "") -> models.Rows[models_lists.Model]:
    """Return the tenant's models."""
    return _models(request, page, name, preset=False)


def _models(request: Request, page: Page, name: str, *, preset: bool) -> models.Rows[models_lists.Model]:
    listed = _listed(request, "models")
    found = [row for row in listed if bool(row.get("isPreset")) is preset and name in row["name"]]
    return models.Rows[models_lists.Model].model_validate(rows(of(request), page.of(found), len(found)))


class ImageFilter(BaseModel):
    """Which images are asked for; the keyword is fuzzy."""

    keyword: str
    exact: dict[str, str]

    def takes(self, row: dict[str, Any]) -> bool:
        """Say whether an image is asked for."""
        return self.keyword.lower() in row["name"].lower() and all(
            wanted in ("", row.get(key, wanted)) for key, wanted in self.exact.items()
        )


def _image_filter(
    *,
    keyword: Annotated[str, Query(alias="filter.keyword")] = "",
    major: Annotated[str, Query(alias="filter.major_category")] = "",
    minor: Annotated[str, Query(alias="filter.minor_category")] = "",
    kind: Annotated[str, Query(alias="filter.image_build_type")] = "",
    region: Annotated[str, Query(alias="filter.image_build_region")] = "",
    cluster: Annotated[str, Query(alias="filter.image_build_cluster")] = "",
) -> ImageFilter:
    exact = {
        "major_category": major,
        "minor_category": minor,
        "image_build_type": kind,
        "image_build_region": region,
        "image_build_cluster": cluster,
    }
    return ImageFilter(keyword=keyword, exact=exact)


@router.get("/aiapi/v1/image-sync-server/images-management")
async def images(
    request: Request, page: Paged, query: Annotated[ImageFilter, Depends(_image_filter)]
) -> models.Rows[models_lists.Image]:
    """Return images."""
    found = [row for row in _listed(request, "images") if query.takes(row)]
    return models.Rows[models_lists.Image].model_validate(rows(of(request), page.of(found), len(found)))
