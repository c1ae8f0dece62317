import { setImmediate as nextTurn } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Link, LinkOrigin } from '../../../core/domain/link.ts'
import type { Store } from '../../../core/domain/store.ts'
import { type ErrorDetail, isTollgateError } from '../../../core/errors/error.ts'
import type { ImportedLink } from '../../../core/ports/store/links.ts'
import type { Api } from '../../deps.ts'
import { createLink } from '../createLink.ts'
import type { CreateLinkBody } from '../linkBodies.ts'
import { refuseMovedCredential } from '../linkRules.ts'
import { readLinkFields } from '../readLinkFields.ts'
import { nameOf } from '../slugs.ts'
import { updateLink } from '../updateLink.ts'
import { openUpstreamHeaders, readUpstreamHeaders, type UpstreamHeaders } from '../upstreamHeaders.ts'
import type { Draft, Drafts, DraftsRequest } from './readDrafts.ts'
import { type DraftText, readInThread } from './readInThread.ts'

/** No operation is begun later: with the health check that then runs, an answer comes within what clients wait. */
const BUDGET_MS = 8_000
/** Health checks that one import has at the seller's at a time. */
const AT_A_TIME = 2

export interface ImportRequest extends DraftsRequest {
  /** The seller's name for the document; made from its title when left out. */
  readonly source?: string | undefined
  readonly isDryRun: boolean
  readonly isPublic?: boolean | undefined
  readonly upstreamHeaders?: UpstreamHeaders | undefined
  /** How many of the document's operations are done already. */
  readonly offset: number
}

/**
 * What becomes of an operation. `create`, `change`, `keep`: of its link, in a dry run what would become of it. `gone`: its
 * link is there, the operation is not any more; nothing is done.
 */
export type ImportAction = 'create' | 'change' | 'keep' | 'left_out' | 'gone' | 'failed'

export interface ImportedOperation {
  readonly operation: string
  readonly operationId: string | null
  readonly action: ImportAction
  readonly price: string | null
  readonly title: string | null
  readonly slug: string | null
  readonly linkId: string | null
  /** Names of the fields that change. */
  readonly changes: readonly string[]
  /** Why it is left out or failed, or what its seller should know. */
  readonly reason: string | null
}

export interface ImportReport {
  readonly source: string
  readonly server: string
  readonly otherServers: readonly string[]
  readonly operations: readonly ImportedOperation[]
  /** Where the next request goes on; null when all is done. */
  readonly nextOffset: number | null
}

/**
 * Makes or changes a link for each operation of a document, in its order, and goes on in the next request where its time is
 * over. What is there already stays or is changed, so that any request may be sent again. A document may have a thousand
 * operations of 16 kB: each is looked at in a turn of the event loop of its own, so that calls are answered in between.
 *
 * @throws `VALIDATION_ERROR` for a document that can not be imported at all
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
    for (const match of matches) operations.push(foretold(api, await planOf(job, match), room))
    next = matches.length
  } else {
    const from = next
    const work = async () => {
      while (next < matches.length && (next === from || api.clock.now() - startedAtMs < BUDGET_MS)) {
        const at = next++
        operations[at - from] = await carryOut(job, await planOf(job, matches[at]!))
      }
    }
    await Promise.all(Array.from({ length: AT_A_TIME }, work))
  }
  if (request.offset === 0) operations.push(...withoutLink(read.leftOut, matches, known))
  return {
    ...{ source, server: read.server, otherServers: read.otherServers, operations },
    nextOffset: next < matches.length ? next : null,
  }
}

/** What each operation of one request has in common. */
interface Job {
  readonly api: Api
  readonly store: Store
  readonly source: string
  readonly request: ImportRequest
}

/** An operation, and the link that it has already. */
interface Match {
  readonly draft: DraftText
  readonly link: ImportedLink | undefined
}

function matchesOf(drafts: readonly DraftText[], known: readonly ImportedLink[]): Match[] {
  const byKey = new Map(known.map((link) => [link.origin.key, link]))
  const byOperation = Map.groupBy(known, ({ origin }) => origin.operation)
  const linkOf = (draft: DraftText) => byKey.get(keyOf(draft))
  // One of an id that stands at another path now is that operation's, not the one's in its old place.
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
  /** The link that the operation has already. */
  readonly link: Link | undefined
  readonly body: CreateLinkBody
  /** Of `body` and `origin`, what is another than the link's. */
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
    ...{ url, title, description, price, methods: methods as CreateLinkBody['methods'] & {} },
    ...{ inputSchema, outputExample, tags },
    ...(isPublic !== undefined && { isPublic }),
    ...(upstreamHeaders !== undefined && { upstreamHeaders }),
  }
  // One that was deleted since is made anew.
  if (!link?.isActive) return { draft, origin, link: undefined, body, changes: [] }
  return { draft, origin, link, body, changes: changesOf(api, link, body, origin) }
}

/** An operation that had no id, or has lost it, is known by its method and path; one of another id is another. */
const isUnclaimed = ({ origin }: ImportedLink, operationId: string | null): boolean =>
  operationId === null || origin.key.startsWith('op:')

const keyOf = ({ operation, operationId }: Pick<Draft, 'operation' | 'operationId'>): string =>
  operationId === null ? `op:${operation}` : `id:${operationId}`

function changesOf(api: Api, link: Link, body: CreateLinkBody, origin: LinkOrigin): string[] {
  const { upstreamHeaders, ...plain } = body
  const changed = Object.entries(plain).flatMap(([name, value]) =>
    isSame(name, value, link[name as keyof Link]) ? [] : [name],
  )
  if (upstreamHeaders !== undefined && !hasHeaders(api, link, upstreamHeaders ?? {}))
    changed.push('upstreamHeaders')
  if (!isDeepStrictEqual(origin, link.origin)) changed.push('operation')
  return changed
}

/** Prices and documents are the same in any form. */
const isSame = (name: string, one: unknown, other: unknown): boolean =>
  name === 'price'
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

/** What would become of it, as far as nobody else is asked: no API is called and nothing is written. */
function foretold(api: Api, plan: Plan, room: { left: number }): ImportedOperation {
  try {
    const fields = readLinkFields(api, plan.link?.id ?? '', plan.body)
    if (plan.link !== undefined) refuseMovedCredential(plan.link, fields)
  } catch (error) {
    return told(plan, 'failed', { reason: wordsOf(error) })
  }
  if (plan.link !== undefined) return told(plan, plan.changes.length === 0 ? 'keep' : 'change')
  if (room.left-- > 0) return told(plan, 'create')
  return told(plan, 'failed', { reason: `A store has at most ${api.maxLinksPerStore} active links.` })
}

async function carryOut({ api, store }: Job, plan: Plan): Promise<ImportedOperation> {
  const { link, body, draft, origin, changes } = plan
  try {
    if (link === undefined) {
      const made = await createLink(api, store, body, { slug: draft.slug, origin })
      return told(plan, 'create', { link: made })
    }
    if (changes.length === 0) return told(plan, 'keep')
    // Headers of the same value are sent along: a new host gets none that the request does not name.
    const isNamed = (name: string) => changes.includes(name) || name === 'upstreamHeaders'
    const named = Object.fromEntries(Object.entries(body).filter(([name]) => isNamed(name)))
    return told(plan, 'change', { link: await updateLink(api, store, link, named, { origin }) })
  } catch (error) {
    return told(plan, 'failed', { reason: wordsOf(error) })
  }
}

function told(
  { draft, link, changes }: Plan,
  action: ImportAction,
  more: { readonly link?: Link; readonly reason?: string } = {},
): ImportedOperation {
  const its = more.link ?? link
  return {
    ...{ operation: draft.operation, operationId: draft.operationId, action, price: draft.price },
    ...{ title: draft.title, slug: its?.slug ?? null, linkId: its?.id ?? null, changes },
    reason: more.reason ?? (draft.notes.join(' ') || null),
  }
}

/** @throws what is no refusal of this operation: then nothing can be done for the others either */
function wordsOf(error: unknown): string {
  if (!isTollgateError(error) || error.code === 'store_unavailable') throw error
  const details = (error.details ?? []).map(({ path, message }: ErrorDetail) => `${path}: ${message}`)
  return details.length > 0 ? details.join(' ') : error.message
}

/** Operations that are left out, and links whose operation is neither made nor left out now. */
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
    const more = 'The link that it has stays as it is.'
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
      const reason = 'It is not in the document any more; its link stays until you delete it.'
      return { ...none, ...stays(link), operation, operationId, action: 'gone', reason }
    })
  return [...out, ...gone]
}
