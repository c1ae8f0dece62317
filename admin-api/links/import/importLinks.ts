import { setImmediate as nextTurn } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Link, LinkOrigin } from '../../../core/domain/link.ts'
import type { Store } from '../../../core/domain/store.ts'
import { type ErrorDetail, isTollgateError } from '../../../core/errors/error.ts'
import type { ImportedLink } from '../../../core/ports/store/links.ts'
import type { Api } from '../../deps.ts'
import type { CreateLinkBody } from '../linkBodies.ts'
import {
  nameOf,
  openUpstreamHeaders,
  readLinkFields,
  readUpstreamHeaders,
  type UpstreamHeaders,
} from '../linkFields.ts'
import { createLink, refuseMovedCredential, updateLink } from '../saveLink.ts'
import type { Draft, Drafts, DraftsRequest } from './readDrafts.ts'
import { type DraftText, readInThread } from './readInThread.ts'
import { rangeOf } from './statedPrice.ts'

/**
 * No operation starts after this time, in ms. So the response arrives within the client's timeout, even after one more health
 * check.
 */
const BUDGET_MS = 8_000
/** Maximum number of concurrent health checks of one import against the seller's API. */
const AT_A_TIME = 2

interface ImportRequest extends DraftsRequest {
  /** The seller's name for the document. By default it is made from the document's title. */
  readonly source?: string | undefined
  readonly isDryRun: boolean
  readonly isPublic?: boolean | undefined
  readonly upstreamHeaders?: UpstreamHeaders | undefined
  /** How many operations of the document earlier requests have processed. */
  readonly offset: number
}

/**
 * What an import does to an operation, or would do in a dry run. `create`, `change` and `keep` refer to the operation's link.
 * `gone` means that a link exists but its operation is no longer in the document. The import does not change such a link.
 */
type ImportAction = 'create' | 'change' | 'keep' | 'left_out' | 'gone' | 'failed'

interface ImportedOperation {
  readonly operation: string
  readonly operationId: string | null
  readonly action: ImportAction
  readonly price: string | null
  readonly title: string | null
  readonly slug: string | null
  readonly linkId: string | null
  /** Names of the changed fields. */
  readonly changes: readonly string[]
  /** Why the operation is left out or failed, or a note for the seller. */
  readonly reason: string | null
}

interface ImportReport {
  readonly source: string
  readonly server: string
  readonly otherServers: readonly string[]
  readonly operations: readonly ImportedOperation[]
  /** The `offset` of the next request. Null when all operations are done. */
  readonly nextOffset: number | null
}

/**
 * Creates or changes a link for each operation of a document, in the document's order. When its time is up, the next request
 * continues. Existing links stay or are changed, so any request can be repeated. A document may have a thousand operations of 16
 * kB. Each is read in its own turn of the event loop, so that the process can serve calls in between.
 *
 * @throws `VALIDATION_ERROR` for a document that cannot be imported at all
 */
export async function importLinks(api: Api, store: Store, request: ImportRequest): Promise<ImportReport> {
  const startedAtMs = api.clock.now()
  const read = await readInThread(store.id, request)
  const source = request.source ?? nameOf(read.title)
  const known = await api.links.importedFrom(store.id, source)
  const matches = matchesOf(read.drafts, known)
  const job: Job = { api, store, source, request }
  const operations: ImportedOperation[] = []
  let next = Math.min(request.offset, matches.length)
  if (request.isDryRun) {
    const room = { left: api.maxLinksPerStore - (await api.links.countOf(store.id)) }
    for (const match of matches) operations.push(planned(api, await planOf(job, match), room))
    next = matches.length
  } else {
    const from = next
    const work = async () => {
      while (next < matches.length && (next === from || api.clock.now() - startedAtMs < BUDGET_MS)) {
        const at = next++
        operations[at - from] = await runPlan(job, await planOf(job, matches[at]!))
      }
    }
    await Promise.all(Array.from({ length: AT_A_TIME }, work))
  }
  if (request.offset === 0) operations.push(...withoutLink(read.leftOut, matches, known))
  return {
    source,
    server: read.server,
    otherServers: read.otherServers,
    operations,
    nextOffset: next < matches.length ? next : null,
  }
}

/** State that the operations of one request share. */
interface Job {
  readonly api: Api
  readonly store: Store
  readonly source: string
  readonly request: ImportRequest
}

/** An operation, and its existing link. */
interface Match {
  readonly draft: DraftText
  readonly link: ImportedLink | undefined
}

function matchesOf(drafts: readonly DraftText[], known: readonly ImportedLink[]): Match[] {
  const byKey = new Map(known.map((link) => [link.origin.key, link]))
  const byOperation = Map.groupBy(known, ({ origin }) => origin.operation)
  const linkOf = (draft: DraftText) => byKey.get(keyOf(draft))
  // If an operation's id is now at another path, its link belongs to that operation and not to the operation at the old path.
  const claimed = new Set(drafts.map(linkOf))
  return drafts.map((draft) => {
    const { operation, operationId } = draft
    const free = byOperation.get(operation)?.find((one) => !claimed.has(one) && isUnclaimed(one, operationId))
    return { draft, link: linkOf(draft) ?? free }
  })
}

interface Plan {
  readonly draft: Draft
  readonly origin: LinkOrigin
  /** The existing link of the operation. */
  readonly link: Link | undefined
  readonly body: CreateLinkBody
  /** The fields of `body` and `origin` that differ from the link. */
  readonly changes: readonly string[]
}

async function planOf({ api, source, request }: Job, { draft: { json }, link: found }: Match): Promise<Plan> {
  await nextTurn()
  const draft = JSON.parse(json) as Draft
  const link = found && (await api.links.find(found.id))
  const { isPublic, upstreamHeaders } = request
  const { operation, url, title, description, price, methods, inputSchema, outputExample, tags } = draft
  const origin = { document: source, key: keyOf(draft), operation }
  const body = {
    url,
    title,
    description,
    price: price as CreateLinkBody['price'] & {},
    methods: methods as CreateLinkBody['methods'] & {},
    inputSchema,
    outputExample,
    tags,
    ...(isPublic !== undefined && { isPublic }),
    ...(upstreamHeaders !== undefined && { upstreamHeaders }),
  }
  // The link was deleted meanwhile, so it is created again.
  if (!link?.isActive) return { draft, origin, link: undefined, body, changes: [] }
  if (link.pricing === null || typeof price !== 'string')
    return { draft, origin, link, body, changes: changesOf(api, link, body, origin) }
  // One price in the document must not replace the seller's prices by request.
  const { price: _price, ...rest } = body
  return { draft, origin, link, body: rest, changes: changesOf(api, link, rest, origin) }
}

/**
 * Whether the method and path may identify the operation's link. They may if the operation has no id now or had none before. Two
 * different ids mean two different operations.
 */
const isUnclaimed = ({ origin }: ImportedLink, operationId: string | null): boolean =>
  operationId === null || origin.key.startsWith('op:')

const keyOf = ({ operation, operationId }: Pick<Draft, 'operation' | 'operationId'>): string =>
  operationId === null ? `op:${operation}` : `id:${operationId}`

function changesOf(api: Api, link: Link, body: CreateLinkBody, origin: LinkOrigin): string[] {
  const { upstreamHeaders, ...plain } = body
  const changed = Object.entries(plain).flatMap(([name, value]) =>
    isSame(name, value, name === 'price' ? (link.pricing ?? link.price) : link[name as keyof Link])
      ? []
      : [name],
  )
  if (upstreamHeaders !== undefined && !hasHeaders(api, link, upstreamHeaders ?? {}))
    changed.push('upstreamHeaders')
  if (!isDeepStrictEqual(origin, link.origin)) changed.push('operation')
  return changed
}

/** Compares prices and JSON documents by value. */
const isSame = (name: string, one: unknown, other: unknown): boolean =>
  name === 'price' && typeof one === 'string' && typeof other === 'string'
    ? withoutZeros(String(one)) === withoutZeros(String(other))
    : isDeepStrictEqual(JSON.parse(JSON.stringify(one)), other)

const withoutZeros = (price: string): string =>
  price
    .replace(/^0+(?=\d)/, '')
    .replace(/(\.\d*?)0+$/, '$1')
    .replace(/\.$/, '')

function hasHeaders({ sealer }: Api, { id, upstreamHeadersSealed }: Link, given: UpstreamHeaders): boolean {
  const read = readUpstreamHeaders(given)
  if (!('headers' in read)) return false
  return isDeepStrictEqual({ ...read.headers }, { ...openUpstreamHeaders(sealer, id, upstreamHeadersSealed) })
}

/** What an import would do to the operation. This function calls no API and writes nothing. */
function planned(api: Api, plan: Plan, room: { left: number }): ImportedOperation {
  try {
    const fields = readLinkFields(api, plan.link?.id ?? '', plan.body)
    if (plan.link !== undefined) refuseMovedCredential(plan.link, fields)
  } catch (error) {
    return imported(plan, 'failed', { reason: wordsOf(error) })
  }
  if (plan.link !== undefined) return imported(plan, plan.changes.length === 0 ? 'keep' : 'change')
  if (room.left-- > 0) return imported(plan, 'create')
  return imported(plan, 'failed', {
    reason: `The store has reached its limit of ${api.maxLinksPerStore} active links. Delete a link first.`,
  })
}

async function runPlan({ api, store }: Job, plan: Plan): Promise<ImportedOperation> {
  const { link, body, draft, origin, changes } = plan
  try {
    if (link === undefined) {
      const made = await createLink(api, store, body, { slug: draft.slug, origin })
      return imported(plan, 'create', { link: made })
    }
    if (changes.length === 0) return imported(plan, 'keep')
    // Headers with unchanged values are also sent, because a new host gets only headers that the request names.
    const isNamed = (name: string) => changes.includes(name) || name === 'upstreamHeaders'
    const named = Object.fromEntries(Object.entries(body).filter(([name]) => isNamed(name)))
    return imported(plan, 'change', { link: await updateLink(api, store, link, named, { origin }) })
  } catch (error) {
    return imported(plan, 'failed', { reason: wordsOf(error) })
  }
}

function imported(
  { draft, link, changes }: Plan,
  action: ImportAction,
  more: { readonly link?: Link; readonly reason?: string } = {},
): ImportedOperation {
  const its = more.link ?? link
  const isTable = typeof draft.price !== 'string'
  const keepsPrices = !isTable && link?.pricing != null
  const notes = [
    ...draft.notes,
    ...(isTable ? ['The price depends on the request.'] : []),
    ...(keepsPrices ? ['The link keeps its prices by request.'] : []),
  ]
  return {
    operation: draft.operation,
    operationId: draft.operationId,
    action,
    price: keepsPrices ? link.price : rangeOf(draft.price).price,
    title: draft.title,
    slug: its?.slug ?? null,
    linkId: its?.id ?? null,
    changes,
    reason: more.reason ?? (notes.join(' ') || null),
  }
}

/** The message of an error about this operation. @throws other errors, because the other operations would fail too */
function wordsOf(error: unknown): string {
  if (!isTollgateError(error) || error.code === 'store_unavailable') throw error
  const details = (error.details ?? []).map(({ path, message }: ErrorDetail) => `${path}: ${message}`)
  return details.length > 0 ? details.join(' ') : error.message
}

/** Operations that are left out, and links whose operation is neither imported nor left out now. */
function withoutLink(
  leftOut: Drafts['leftOut'],
  matches: readonly Match[],
  known: readonly ImportedLink[],
): ImportedOperation[] {
  const meant = new Set(matches.map(({ link }) => link?.id))
  const standing = known.filter(({ id }) => !meant.has(id))
  const byKey = new Map(standing.map((link) => [link.origin.key, link]))
  const byOperation = new Map(standing.map((link) => [link.origin.operation, link]))
  const none = { price: null, title: null, slug: null, linkId: null, changes: [] }
  const stays = ({ title, slug, id, price }: ImportedLink) => ({ title, slug, linkId: id, price })
  const named = new Set<ImportedLink>()
  const out = leftOut.map(({ operation, operationId, reason }): ImportedOperation => {
    const link = byKey.get(keyOf({ operation, operationId })) ?? byOperation.get(operation)
    if (link === undefined) return { ...none, operation, operationId, action: 'left_out', reason }
    named.add(link)
    const more = 'The existing link of the operation stays unchanged.'
    return {
      ...none,
      ...stays(link),
      operation,
      operationId,
      action: 'left_out',
      reason: `${reason} ${more}`,
    }
  })
  const gone = standing
    .filter((link) => !named.has(link))
    .map((link): ImportedOperation => {
      const { operation, key } = link.origin
      const operationId = key.startsWith('id:') ? key.slice(3) : null
      const reason = 'The operation is no longer in the document. The link stays until you delete it.'
      return { ...none, ...stays(link), operation, operationId, action: 'gone', reason }
    })
  return [...out, ...gone]
}
