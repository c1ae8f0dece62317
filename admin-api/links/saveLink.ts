import { createHash, randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import {
  isPaid,
  type Link,
  type LinkId,
  type LinkOrigin,
  linkDefaults,
  type Payout,
  payoutFor,
} from '../../core/domain/link.ts'
import { networkTitle } from '../../core/domain/network.ts'
import { isQueried, type Pricing } from '../../core/domain/pricing.ts'
import type { Store } from '../../core/domain/store.ts'
import { type ErrorDetail, isTollgateError, TollgateError } from '../../core/errors/error.ts'
import { type ProbeReport, probe } from '../../core/health/probe.ts'
import { createLoopMarks } from '../../core/http/loopMark.ts'
import type { HealthEvent, LinkPatch, NewLink } from '../../core/ports/store/links.ts'
import type { Api } from '../deps.ts'
import { validationError } from '../http/validation.ts'
import type { CreateLinkBody, UpdateLinkBody } from './linkBodies.ts'
import { createPrivateSlug, openUpstreamHeaders, readLinkFields, slugOf, withSuffix } from './linkFields.ts'
import { pricingProblems } from './priceConditions.ts'

/** Notifies caches of every address at which the link is or was callable. */
export function announceLink(
  api: Pick<Api, 'announce'>,
  username: string,
  ...versions: readonly Link[]
): void {
  const slugs = new Set(versions.map((link) => link.privateSlug ?? link.slug))
  for (const slug of slugs) api.announce({ kind: 'link', username, slug })
}

type Candidate = Pick<Link, 'id' | 'url' | 'price' | 'linkType' | 'upstreamHeadersSealed'>

/** Unlists a stealth link, because its address is a secret. If a client sends both flags, it means stealth. */
const stealthWins = <L extends Pick<Link, 'isPublic' | 'isStealth'>>(link: L): L =>
  link.isPublic && link.isStealth ? { ...link, isPublic: false } : link

/**
 * Refuses URLs to which calls or webhooks could never be sent, also for free links. Their hosts are resolved now. The `url` of a
 * `standard` link is not checked, because the buyer opens it and not the gateway.
 *
 * @param was the stored link; its unchanged values were checked before
 * @throws `VALIDATION_ERROR` with every invalid field
 */
async function refuseUncallable(
  { egress }: Pick<Api, 'egress'>,
  { url, webhookUrl, linkType, pricing }: Pick<Link, 'url' | 'webhookUrl' | 'linkType' | 'pricing'>,
  was?: Pick<Link, 'url' | 'webhookUrl' | 'linkType' | 'pricing'>,
): Promise<void> {
  const judge = async (path: string, given: string): Promise<ErrorDetail[]> => {
    try {
      await egress.judgeUrl(given)
      return []
    } catch (error) {
      if (!isTollgateError(error)) throw error
      return [{ path, code: error.details?.[0]?.code ?? 'url', message: error.message }]
    }
  }
  const isCalled = linkType !== 'standard'
  const priceUrl = priceUrlOf(pricing)
  const isNew = url !== was?.url || linkType !== was.linkType
  const problems = await Promise.all([
    isCalled && isNew ? judge('url', url) : [],
    webhookUrl !== null && webhookUrl !== was?.webhookUrl ? judge('webhookUrl', webhookUrl) : [],
    priceUrl !== undefined && priceUrl !== priceUrlOf(was?.pricing) ? judge('price.url', priceUrl) : [],
  ])
  if (problems.flat().length > 0) throw validationError(problems.flat())
}

/** The URL of the server that states the prices of a link. Undefined if the link has no such server. */
export const priceUrlOf = (pricing: Pricing | null | undefined): string | undefined =>
  pricing != null && isQueried(pricing) ? pricing.url : undefined

/**
 * Refuses a new host that would get the credential of the old one. Otherwise an attacker with a leaked API key could have the
 * seller's credential sent to their own host.
 *
 * @param fields the changed fields of the link
 * @throws `VALIDATION_ERROR`
 */
export function refuseMovedCredential(
  was: Pick<Link, 'url' | 'upstreamHeadersSealed'>,
  fields: Partial<Pick<Link, 'url' | 'upstreamHeadersSealed'>>,
): void {
  if (was.upstreamHeadersSealed === null || fields.upstreamHeadersSealed !== undefined) return
  const [from, to] = [new URL(was.url).origin, new URL(fields.url ?? was.url).origin]
  if (from === to) return
  const message = `The stored upstreamHeaders belong to ${from} and are not sent to ${to}. Send upstreamHeaders again together with the new url, or {} to drop them.`
  throw validationError([{ path: 'upstreamHeaders', code: 'required', message }])
}

/** Refuses a price that conflicts with the link's other fields. @throws `VALIDATION_ERROR` */
function refuseUnclearPricing(
  { sealer }: Pick<Api, 'sealer'>,
  link: Pick<Link, 'id' | 'pricing' | 'linkType' | 'url' | 'settle' | 'upstreamHeadersSealed'>,
): void {
  if (link.pricing === null) return
  const headers = openUpstreamHeaders(sealer, link.id, link.upstreamHeadersSealed)
  const problems = pricingProblems(link, Object.keys(headers))
  if (problems.length > 0) throw validationError(problems)
}

/** Refuses an access that conflicts with the price. @throws `VALIDATION_ERROR` */
function refuseUnclearAccess(link: Pick<Link, 'access' | 'price' | 'pricing'>): void {
  const message = accessProblem(link)
  if (message !== undefined) throw validationError([{ path: 'access', code: 'conflict', message }])
}

function accessProblem(link: Pick<Link, 'access' | 'price' | 'pricing'>): string | undefined {
  if (link.access === null) return undefined
  if (link.access === 'signed-in')
    return isPaid(link)
      ? 'A link for signed-in wallets is free. Set its price to 0, or set access to an object such as {"paidFor":"24h"}.'
      : undefined
  if (!isPaid(link)) return 'A free link has no purchases. Set a price above 0, or set access to signed-in.'
  if (link.pricing !== null)
    return 'Expected one price for every call, because a purchase at the lowest price would give access to the most expensive calls.'
}

/** Refuses a paid link of a store without a payout wallet. @throws `VALIDATION_ERROR` */
export function refuseUnpayable(api: Api, payout: Payout, link: Pick<Link, 'price'>): void {
  if (!isPaid(link) || api.assets.some(({ network }) => payoutFor(payout, network) !== null)) return
  const networks = [...new Set(api.assets.map((asset) => networkTitle(asset.network)))].join(', ')
  const message = `A paid link needs a payout wallet on one of ${networks || 'the networks (none is configured)'}. Set it with PATCH /api/v1/profile {"payout":{"base":"0x…"}} or {"payout":{"solana":"…"}}, signed by the store's wallet (POST /api/v1/profile/payout/nonce).`
  throw validationError([{ path: 'price', code: 'no_payout_wallet', message }])
}

/**
 * Checks the health of a paid link's API before the link is saved (marketplace interface, section 4). Call `saved` of the result
 * once the link exists, because it writes the check to the link's timeline. A `standard` link has no API to check.
 *
 * @throws `API_NOT_RESPONDING` with the API's response or error
 */
async function refuseUnreachable(api: Api, link: Candidate): Promise<{ saved(): Promise<void> }> {
  if (!isPaid(link) || link.linkType === 'standard') return { saved: async () => {} }
  const report = await probeLink(api, link)
  if (!report.ok) {
    const message = `The API behind this link did not pass the health check. ${report.detail}`
    throw new TollgateError(
      'API_NOT_RESPONDING',
      `${message} A paid link can be saved when a GET of its url returns a status below 500.`,
      { details: [{ path: 'url', code: 'not_responding', message }] },
    )
  }
  return { saved: () => api.links.addHealthEvent(probeEvent(link.id, report, api.clock.now())) }
}

/** Maximum number of tries of a change, if other changes of the same link interrupt it. */
const MAX_TRIES = 5

/**
 * Changes a link. The health of a paid link is checked again only if its URL, its price or its type changes.
 *
 * A health check takes seconds. Another request may change the link in that time, for example to stealth. That change must not be
 * undone, so this change is then applied again to the changed link.
 *
 * @param imported the data that an import records about the link in addition to its fields
 * @throws what its steps throw, `SLUG_ALREADY_EXISTS`, `CONFLICT`, and `LINK_NOT_FOUND` if the link was deleted meanwhile
 */
export async function updateLink(
  api: Api,
  store: Store,
  link: Link,
  body: UpdateLinkBody,
  imported: Pick<LinkPatch, 'origin'> = {},
): Promise<Link> {
  const fields = { ...readLinkFields(api, link.id, body), ...imported }
  if (Object.keys(fields).length === 0) return link

  let checked: { readonly as: Link; saved(): Promise<void> } | undefined
  let present = link
  for (let tries = 1; tries <= MAX_TRIES; tries++) {
    const next = stealthWins({ ...present, ...fields, ...privateSlugOf(present, fields.isStealth) })
    const { isPublic, privateSlug } = next
    refuseMovedCredential(present, fields)
    refuseUnclearPricing(api, next)
    refuseUnclearAccess(next)
    refuseUnpayable(api, store.payout, next)
    await refuseUncallable(api, next, present)
    if (!isSameApi(next, present) && !(checked && isSameApi(next, checked.as))) {
      checked = { as: next, ...(await refuseUnreachable(api, next)) }
    }
    const patch: LinkPatch = { ...fields, isPublic, privateSlug }
    const updated = await api.links.update(link.id, patch, api.clock.now(), present.version)
    if (updated !== undefined) {
      await checked?.saved()
      announceLink(api, store.username, present, updated)
      return updated
    }
    const latest = await api.links.find(link.id)
    if (!latest?.isActive) throw new TollgateError('LINK_NOT_FOUND', 'The link was deleted in the meantime.')
    present = latest
  }
  throw new TollgateError('CONFLICT', 'Other requests are changing this link. Send the request again.')
}

/** Whether a health check of one link is also valid for the other. */
const isSameApi = (a: Link, b: Link): boolean =>
  a.url === b.url && a.price === b.price && a.linkType === b.linkType

/** The secret address. A link gets one when it becomes stealth, and loses it when it stops being stealth. */
function privateSlugOf(link: Link, isStealth: boolean | undefined): LinkPatch {
  if (isStealth === undefined || isStealth === link.isStealth) return {}
  return { privateSlug: isStealth ? createPrivateSlug() : null }
}

const SLUG_TRIES = 5
/** How long a created link is remembered, in ms. Clients time out after 15 s and retry twice, half a second apart. */
const REMEMBERED_MS = 60_000
const REMEMBERED = 10_000

/**
 * Wraps {@link createLink} for clients that got no response and repeat the request without a key that marks the repeat. Identical
 * requests of a store within a minute create one link, and a repeated request joins the first one if that is in progress. This
 * process remembers created links in memory, because no other process creates links. A link that was deleted meanwhile is created
 * again.
 */
export function createLinkOnce(api: Api): (store: Store, body: CreateLinkBody) => Promise<Link> {
  const made = new LRUCache<string, { readonly linkId: Promise<LinkId>; readonly untilMs: number }>({
    max: REMEMBERED,
  })
  return async (store, body) => {
    const request = createHash('sha256').update(store.id).update(JSON.stringify(body)).digest('base64')
    const earlier = made.get(request)
    if (earlier !== undefined && earlier.untilMs > api.clock.now()) {
      const link = await api.links.find(await earlier.linkId)
      if (link?.isActive) return link
    }
    const creating = createLink(api, store, body)
    const entry = { linkId: creating.then((link) => link.id), untilMs: api.clock.now() + REMEMBERED_MS }
    made.set(request, entry)
    // A request that was refused may succeed the next time.
    entry.linkId.catch(() => made.get(request) === entry && made.delete(request))
    return creating
  }
}

/** The data that an import records about a link in addition to its fields. */
interface Imported {
  readonly origin: LinkOrigin
  /** The slug that the link gets if no other link of the store has it. */
  readonly slug: string
}

/**
 * Creates a link of a store, after a health check if the link is paid.
 *
 * @throws what its steps throw, `SLUG_ALREADY_EXISTS`, `LIMIT_REACHED`; `CONFLICT` if a link with the same origin exists
 */
export async function createLink(
  api: Api,
  store: Store,
  body: CreateLinkBody,
  imported?: Imported,
): Promise<Link> {
  const id = randomUUID()
  const nowMs = api.clock.now()
  const link: NewLink = stealthWins({
    ...linkDefaults,
    slug: imported?.slug ?? slugOf(body.title),
    origin: imported?.origin ?? null,
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
  refuseUnclearPricing(api, link)
  refuseUnclearAccess(link)
  refuseUnpayable(api, store.payout, link)
  await refuseUncallable(api, link)
  const probed = await refuseUnreachable(api, link)
  const created = await insert(api, link, body.slug == null)
  await probed.saved()
  announceLink(api, store.username, created)
  return created
}

/**
 * Inserts the link. If a generated slug is taken, the function generates another one. If a slug that the seller chose is taken, the
 * function refuses it.
 */
async function insert(api: Api, link: NewLink, isSlugOurs: boolean): Promise<Link> {
  let slug = link.slug
  for (let tries = 1; ; tries++) {
    try {
      return await api.links.create({ ...link, slug }, api.maxLinksPerStore)
    } catch (error) {
      if (isTollgateError(error) && error.code === 'LIMIT_REACHED') throw tooMany(api.maxLinksPerStore)
      const isTaken = isTollgateError(error) && error.code === 'SLUG_ALREADY_EXISTS'
      if (!isTaken || !isSlugOurs || tries === SLUG_TRIES) throw error
      slug = withSuffix(link.slug)
    }
  }
}

const tooMany = (maximum: number): TollgateError =>
  new TollgateError(
    'LIMIT_REACHED',
    `The store has reached its limit of ${maximum} active links. Delete one with DELETE /api/v1/links/:id first.`,
  )

/** Runs a health check with the link's own headers. Never rejects. */
export async function probeLink(
  api: Api,
  link: Pick<Link, 'id' | 'url' | 'upstreamHeadersSealed'>,
  timeoutMs = api.probeTimeoutMs,
): Promise<ProbeReport> {
  const headers = openUpstreamHeaders(api.sealer, link.id, link.upstreamHeadersSealed)
  const loopMark = createLoopMarks(api.publicUrl, api.sealer).ofLink(link.id)
  return probe(api.egress, { url: link.url, loopMark, timeoutMs, headers })
}

/** The timeline event of a health check that the seller started. */
export const probeEvent = (linkId: string, report: ProbeReport, atMs: number): HealthEvent => ({
  linkId,
  atMs,
  kind: 'probe',
  ok: report.ok,
  status: report.status,
  latencyMs: report.latencyMs,
  detail: report.detail,
  isRequestedBySeller: true,
})
