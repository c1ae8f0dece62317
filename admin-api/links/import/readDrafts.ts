import { parseAmount } from '../../../core/domain/money.ts'
import { slugOf } from '../linkFields.ts'
import {
  follow,
  followWithSiblings,
  ImportRefusal,
  isTree,
  type OpenApiDocument,
  readDocument,
  SkippedOperation,
  type Tree,
} from './document.ts'
import {
  type DescribedOperation,
  describeOperation,
  descriptionOf,
  partsOf,
  tagsOf,
  titleOf,
} from './operation.ts'
import { type Price, priceRules } from './prices.ts'
import { rangeOf, type StatedPrice, statedPrice } from './statedPrice.ts'

/** Maximum number of operations of a document. Each becomes a link of the store. */
const MAX_OPERATIONS = 1_000
/**
 * Maximum length of a path or a server URL in characters. A link's URL has the same limit. These texts also appear in messages
 * about other operations.
 */
const MAX_ADDRESS_CHARS = 2_048
/** Maximum number of server URLs of one API. */
const MAX_SERVERS = 100
const methods = ['get', 'head', 'post', 'put', 'patch', 'delete', 'options', 'trace'] as const
const sold = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']

/** The document, and how its links are to be made. */
export interface DraftsRequest {
  /** YAML or JSON. */
  readonly text: string
  /** `each` makes one link per operation. `one` makes one link for the whole API. */
  readonly as: 'each' | 'one'
  /** Base URL of the API. It replaces the base URL in the document. */
  readonly server?: string | undefined
  /** The price of operations that have a price neither in a rule nor in the document. */
  readonly price?: Price | undefined
  readonly prices: ReadonlyMap<string, Price>
}

/** A link to be created, as the document and the prices describe it. */
export interface Draft extends DescribedOperation {
  /** Such as `POST /render`. `*` for the whole API. */
  readonly operation: string
  readonly operationId: string | null
  readonly price: StatedPrice
  /** The base URL to which the path is appended. */
  readonly server: string
}

/** An operation that gets no link, and the reason. */
interface SkippedRow {
  readonly operation: string
  readonly operationId: string | null
  readonly reason: string
}

export interface Drafts {
  /** Title of the API. */
  readonly title: string
  /** Base URL of the API. */
  readonly server: string
  /** Other server URLs of the document. */
  readonly otherServers: readonly string[]
  readonly drafts: readonly Draft[]
  readonly leftOut: readonly SkippedRow[]
}

/** Reads a document into drafts of links, in the document's order. The function fetches nothing. @throws {ImportRefusal} */
export function readDrafts({ text, as, server, price, prices }: DraftsRequest): Drafts {
  const document = readDocument(text)
  const info = isTree(document.root['info']) ? document.root['info'] : {}
  const title = titleOf(info['title']) || 'API'
  const servers = serversOf(follow(document.root, document.root['servers']))
  const base = server === undefined ? firstBase(servers) : baseOf(server)
  const { found, unreadable } = operationsIn(document)
  const priceOf = priceRules(prices, found)
  const main = base ?? (server === undefined && as === 'each' ? firstOwn(document.root, found) : undefined)
  if (main === undefined) throw noServer(server ?? servers[0])
  const common = { title, server: main, otherServers: server === undefined ? servers.slice(1) : [] }
  if (as === 'one')
    return { ...common, ...wholeApi({ root: document.root, title, main, found, price, prices }) }
  const drafts: Draft[] = []
  const leftOut: SkippedRow[] = [...unreadable]
  for (const one of found) {
    const { operation, operationId } = one
    try {
      const its = priceOf(one) ?? priceStated(one, document.root) ?? price
      const at = server === undefined ? serverOf(document.root, one, base) : main
      drafts.push({
        operation,
        operationId,
        price: sellable(its),
        server: at,
        ...describe(document, one, at),
      })
    } catch (error) {
      if (!(error instanceof SkippedOperation)) throw error
      leftOut.push({ operation, operationId, reason: error.message })
    }
  }
  return { ...common, ...withoutUndercut(drafts, leftOut) }
}

interface FoundOperation {
  readonly operation: string
  readonly operationId: string | null
  readonly method: string
  readonly path: string
  readonly item: Tree
  readonly of: Tree
}

function operationsIn({ root }: OpenApiDocument) {
  const paths = pathsOf(root)
  const found: FoundOperation[] = []
  const unreadable: SkippedRow[] = []
  for (const [path, value] of Object.entries(paths)) {
    if (path.startsWith('x-')) continue
    if (path.length > MAX_ADDRESS_CHARS) {
      const reason = `Expected a path of at most ${MAX_ADDRESS_CHARS} characters.`
      unreadable.push({ operation: `* ${path.toWellFormed().slice(0, 100)}…`, operationId: null, reason })
      continue
    }
    const item = objectAt(root, value)
    if (typeof item === 'string') unreadable.push({ operation: `* ${path}`, operationId: null, reason: item })
    else
      for (const name of methods.filter((one) => Object.hasOwn(item, one))) {
        const [operation, method] = [`${name.toUpperCase()} ${path}`, name.toUpperCase()]
        const of = objectAt(root, item[name])
        if (typeof of === 'string') unreadable.push({ operation, operationId: null, reason: of })
        else found.push({ operation, operationId: idOf(of), method, path, item, of })
      }
  }
  if (found.length + unreadable.length === 0)
    throw new ImportRefusal('document', 'Expected `paths` with at least one operation.')
  const count = found.length + unreadable.length
  if (count > MAX_OPERATIONS) {
    const message = `Expected at most ${MAX_OPERATIONS} operations, got ${count}. Import the document in parts.`
    throw new ImportRefusal('document', message)
  }
  // An id that occurs twice identifies no operation.
  const ids = found.map((one) => one.operationId)
  const isDuplicate = (id: string | null) => ids.indexOf(id) !== ids.lastIndexOf(id)
  return {
    found: found.map((one) => (isDuplicate(one.operationId) ? { ...one, operationId: null } : one)),
    unreadable,
  }
}

function idOf({ operationId }: Tree): string | null {
  return typeof operationId === 'string' && operationId !== ''
    ? operationId.toWellFormed().slice(0, 200)
    : null
}

/** Reads `paths`, which may itself be a reference. @throws {ImportRefusal} */
function pathsOf(root: Tree): Tree {
  try {
    const paths = followWithSiblings(root, root['paths'])
    return isTree(paths) ? paths : {}
  } catch (error) {
    if (!(error instanceof SkippedOperation)) throw error
    throw new ImportRefusal('document', error.message)
  }
}

/** A path item or an operation, or the reason why there is none. */
function objectAt(root: Tree, value: unknown): Tree | string {
  try {
    const object = followWithSiblings(root, value)
    if (!isTree(object)) return 'Expected an object here.'
    // A tool that does not merge writes the key as a string. The merged part may be a price, so the operation is refused.
    return Object.hasOwn(object, '<<')
      ? 'The merge key "<<" is quoted, so it merges nothing. Remove the quotes.'
      : object
  } catch (error) {
    if (error instanceof SkippedOperation) return error.message
    throw error
  }
}

function describe(
  document: OpenApiDocument,
  { of, item, method, path }: FoundOperation,
  server: string,
): DescribedOperation {
  if (!sold.includes(method)) throw new SkippedOperation(`Links do not accept ${method}.`)
  if (of['deprecated'] === true) throw new SkippedOperation('It is deprecated.')
  const listed = [item, of].flatMap((at) => listAt(document.root, at, 'parameters') ?? [])
  const parameters = new Map<string, Tree>()
  for (const one of listed.map((parameter) => follow(document.root, parameter)))
    if (isTree(one)) parameters.set(JSON.stringify([one['in'], one['name']]), one)
  return describeOperation(document, {
    path,
    method,
    operation: of,
    parameters: [...parameters.values()],
    server,
  })
}

/** @throws {SkippedOperation} for a value that is not a list, because without the list the operation would be a different one */
function listAt(root: Tree, at: Tree, name: 'parameters' | 'servers'): unknown[] | undefined {
  const list = follow(root, at[name])
  if (list == null) return undefined
  if (!Array.isArray(list)) throw new SkippedOperation(`Expected a list in \`${name}\`.`)
  return list
}

function priceStated({ of, item }: FoundOperation, root: Tree): StatedPrice | undefined {
  for (const at of [of, item, root]) {
    const misspelt = Object.keys(at).find((key) => key !== 'x-price' && /^x[-_]?price$/i.test(key))
    if (misspelt !== undefined)
      throw new SkippedOperation(`Expected the price in "x-price", but it is in ${JSON.stringify(misspelt)}.`)
    const price = statedPrice(at['x-price'])
    if (price !== undefined) return price
  }
}

function sellable(price: StatedPrice | undefined): StatedPrice {
  if (price === undefined)
    throw new SkippedOperation(
      'The operation has no price. Set a price for all operations, a price rule, or x-price in the document.',
    )
  if (price === 'none')
    throw new SkippedOperation('The operation is not for sale, because its price is none.')
  return price
}

/**
 * Leaves out operations that would sell another operation for less. A link accepts its own path and all paths below it, even if its
 * operation has a parameter there. So an operation is left out if it is cheaper than an operation below it. If an operation below
 * it is not for sale, a note tells the seller.
 */
function withoutUndercut(
  drafts: readonly Draft[],
  leftOut: readonly SkippedRow[],
): Pick<Drafts, 'drafts' | 'leftOut'> {
  const offered = drafts.map((draft) => {
    const [method, path] = splitOperation(draft.operation)
    return { draft, method, address: plainAddress(draft.server + path) }
  })
  const unsold = leftOut.flatMap(({ operation }) => {
    const [method, path] = splitOperation(operation)
    return path.startsWith('/') && !/[?#\\]/.test(path) ? [{ operation, method, path }] : []
  })
  const kept: Draft[] = []
  const out = [...leftOut]
  for (const { draft, method } of offered) {
    const { operation, operationId, price } = draft
    const isReached = reachedFrom(plainAddress(draft.url))
    const moreExpensive = offered.find(
      (other) =>
        other.draft !== draft &&
        other.method === method &&
        isReached(other.address) &&
        isLess(rangeOf(price).price, rangeOf(other.draft.price).priceMax),
    )?.draft
    if (moreExpensive !== undefined) {
      const reason = `A link accepts its own path and all paths below it, so this link would sell ${moreExpensive.operation} (${rangeOf(moreExpensive.price).priceMax}) for ${rangeOf(price).price}. Give both operations the same price, or set one of them to none.`
      out.push({ operation, operationId, reason })
      continue
    }
    const isHidden = reachedFrom(partsOf(splitOperation(operation)[1]).fixed)
    const hidden = unsold.find((one) => (one.method === method || one.method === '*') && isHidden(one.path))
    const note =
      hidden &&
      `The link accepts its own path and all paths below it, including ${hidden.operation}, which is left out.`
    kept.push(note === undefined ? draft : { ...draft, notes: [...draft.notes, note] })
  }
  return { drafts: kept, leftOut: out }
}

/** The URL in the spelling that servers read (RFC 3986, section 6.2.2.2). For example, `/%61` becomes `/a`. */
const plainAddress = (url: string): string =>
  new URL(url).href.replace(/%[\da-f]{2}/gi, (octet) => {
    const character = String.fromCharCode(Number.parseInt(octet.slice(1), 16))
    return /[\w.~-]/.test(character) ? character : octet.toUpperCase()
  })

/** Whether a URL is the link's own or below it. */
function reachedFrom(base: string): (address: string) => boolean {
  const start = `${base.replace(/\/+$/, '')}/`
  return (address) => address === base || address.startsWith(start)
}

function splitOperation(operation: string): [method: string, path: string] {
  const at = operation.indexOf(' ')
  return [operation.slice(0, at), operation.slice(at + 1)]
}

const isLess = (a: Price, b: Price): boolean => parseAmount(a, 18) < parseAmount(b, 18)

interface WholeApi extends Pick<DraftsRequest, 'price' | 'prices'> {
  readonly root: Tree
  readonly title: string
  readonly main: string
  readonly found: readonly FoundOperation[]
}

function wholeApi({ root, title, main, found, price, prices }: WholeApi): Pick<Drafts, 'drafts' | 'leftOut'> {
  if (prices.size > 0)
    throw new ImportRefusal(
      'prices',
      'One link has one price. Remove the price rules, or create a link for each operation.',
    )
  const its = price ?? statedOrRefused(root['x-price'])
  if (its == null || its === 'none')
    throw new ImportRefusal('price', 'Expected a price for the link, such as "0.01", or "0" for a free link.')
  const info = isTree(root['info']) ? root['info'] : {}
  const tags = Array.isArray(root['tags'])
    ? root['tags'].map((tag) => (isTree(tag) ? tag['name'] : undefined))
    : []
  const draft: Draft = {
    operation: '*',
    operationId: null,
    price: its,
    server: main,
    url: new URL(main).href,
    subPath: '',
    title,
    description: descriptionOf(info),
    inputSchema: null,
    outputExample: null,
    methods: sold.filter((method) => found.some((one) => one.method === method)),
    tags: tagsOf(tags),
    slug: slugOf(title),
    notes: [],
  }
  return { drafts: [draft], leftOut: [] }
}

/** @throws {ImportRefusal} for an invalid price, because the link of the whole API needs one */
function statedOrRefused(value: unknown): StatedPrice | undefined {
  try {
    return statedPrice(value)
  } catch (error) {
    if (error instanceof SkippedOperation) throw new ImportRefusal('document', error.message)
    throw error
  }
}

/**
 * The base URL to which an operation's path is appended. It is the URL of the operation's own server, or else of its path's server,
 * or else of the document's server.
 *
 * @param main URL of the document's `servers`, to which the operation's may be relative
 * @throws {SkippedOperation} if no path can be appended to the URL, because an operation of another server would be a different one
 */
function serverOf(root: Tree, { of, item }: FoundOperation, main: string | undefined): string {
  const own = serversOf(listAt(root, of, 'servers') ?? listAt(root, item, 'servers'))
  if (own.length === 0) {
    if (main !== undefined) return main
    throw new SkippedOperation(
      'The document has no server for this operation. Set `server` to the base URL of the API.',
    )
  }
  const base = firstBase(own.map((url) => (main === undefined ? url : absolute(url, main))))
  if (base !== undefined) return base
  throw new SkippedOperation(
    `The operation's own server ${JSON.stringify(own[0]!.slice(0, 200))} is not a base URL such as https://api.example.com/v1. Set \`server\` to a base URL.`,
  )
}

const absolute = (url: string, main: string): string => URL.parse(url, `${main}/`)?.href ?? url

/** The first server URL that an operation has of its own. */
function firstOwn(root: Tree, found: readonly FoundOperation[]): string | undefined {
  for (const one of found) {
    try {
      return serverOf(root, one, undefined)
    } catch (error) {
      if (!(error instanceof SkippedOperation)) throw error
    }
  }
}

function noServer(shown: string | undefined): ImportRefusal {
  const what = shown === undefined ? 'the document has none' : `got ${JSON.stringify(shown.slice(0, 200))}`
  return new ImportRefusal(
    'server',
    `Expected the base URL of the API, such as https://api.example.com/v1, but ${what}. Set \`server\` to the base URL.`,
  )
}

const firstBase = (servers: readonly string[]): string | undefined =>
  servers.map(baseOf).find((base) => base !== undefined)

/** URLs of `servers`, with default values for their variables. URLs that are too long are dropped. */
function serversOf(value: unknown): string[] {
  return (Array.isArray(value) ? value.slice(0, MAX_SERVERS) : []).flatMap((server) => {
    if (!isTree(server) || typeof server['url'] !== 'string') return []
    if (server['url'].length > MAX_ADDRESS_CHARS) return []
    const variables = isTree(server['variables']) ? server['variables'] : {}
    const url = server['url'].replace(/\{([^{}]*)\}/g, (whole, name: string) => {
      const variable = Object.hasOwn(variables, name) ? variables[name] : undefined
      if (!isTree(variable) || variable['default'] === undefined) return whole
      return String(variable['default']).slice(0, MAX_ADDRESS_CHARS + 1)
    })
    return url.length > MAX_ADDRESS_CHARS ? [] : [url]
  })
}

/** A base URL without a slash at its end. Undefined if no path can be appended to it. */
function baseOf(text: string): string | undefined {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return undefined
  const { origin, pathname, search, hash, username, password } = new URL(text)
  if (search !== '' || hash !== '' || username !== '' || password !== '' || /[{}]|%7b/i.test(text))
    return undefined
  return origin + pathname.replace(/\/+$/, '')
}
