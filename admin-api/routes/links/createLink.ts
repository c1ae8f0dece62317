import { randomUUID } from 'node:crypto'
import type { Link } from '../../../core/domain/link.ts'
import { linkDefaults } from '../../../core/domain/linkDefaults.ts'
import type { Store } from '../../../core/domain/store.ts'
import { isTollgateError, TollgateError } from '../../../core/errors/error.ts'
import type { NewLink } from '../../../core/ports/links.ts'
import type { Api } from '../../deps.ts'
import type { CreateLinkBody } from './linkBodies.ts'
import { readLinkFields } from './readLinkFields.ts'
import {
  announceLink,
  refuseUncallable,
  refuseUnpayable,
  refuseUnreachable,
  stealthWins,
} from './saveLink.ts'
import { createPrivateSlug, slugOf, withSuffix } from './slugs.ts'

const slugTries = 5

/** Creates a link of a store, after a health check when it is paid. @throws what the steps it names throw, `SLUG_ALREADY_EXISTS`, `LIMIT_REACHED` */
export async function createLink(api: Api, store: Store, body: CreateLinkBody): Promise<Link> {
  const id = randomUUID()
  const nowMs = api.clock.now()
  const link: NewLink = stealthWins({
    ...linkDefaults,
    slug: slugOf(body.title),
    url: body.url,
    title: body.title,
    ...readLinkFields(api, id, body),
    id,
    storeId: store.id,
    isActive: true,
    privateSlug: body.isStealth === true ? createPrivateSlug() : null,
    createdAtMs: nowMs,
    updatedAtMs: nowMs,
  })
  refuseUnpayable(api, store.payout, link)
  await refuseUncallable(api, link)
  const probed = await refuseUnreachable(api, link)
  const created = await insert(api, link, body.slug == null)
  await probed.saved()
  announceLink(api, store.username, created)
  return created
}

/** A slug that we made up may be taken; one that the seller chose is refused then. */
async function insert(api: Api, link: NewLink, isSlugOurs: boolean): Promise<Link> {
  let slug = link.slug
  for (let tries = 1; ; tries++) {
    try {
      return await api.links.create({ ...link, slug }, api.maxLinksPerStore)
    } catch (error) {
      if (isTollgateError(error) && error.code === 'LIMIT_REACHED') throw tooMany(api.maxLinksPerStore)
      const isTaken = isTollgateError(error) && error.code === 'SLUG_ALREADY_EXISTS'
      if (!isTaken || !isSlugOurs || tries === slugTries) throw error
      slug = withSuffix(link.slug)
    }
  }
}

const tooMany = (maximum: number): TollgateError =>
  new TollgateError(
    'LIMIT_REACHED',
    `The store has ${maximum} active links, the most it may have; take one away with DELETE /api/v1/links/:id first.`,
  )
