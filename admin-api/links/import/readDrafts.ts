import { parseAmount } from '../../../core/domain/money.ts'
import { slugOf } from '../slugs.ts'
import { ImportRefusal, isTree, type OpenApiDocument, readDocument, type Tree } from './document.ts'
import {
  type DescribedOperation,
  describeOperation,
  descriptionOf,
  partsOf,
  tagsOf,
  titleOf,
} from './operation.ts'
import { type Price, priceRules, statedPrice } from './prices.ts'
import { follow, followWithSiblings, LeftOut } from './references.ts'

/** More operations are no API that one store sells; a link of the store is made of each. */
const MAX_OPERATIONS = 1_000
/** Of a path or a server's address, as of a link's. Its text stands in what is said of others, too. */
const MAX_ADDRESS_CHARS = 2_048
/** Addresses of one API. */
const MAX_SERVERS = 100
const methods = ['get', 'head', 'post', 'put', 'patch', 'delete', 'options', 'trace'] as const
const sold = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']

/** What is to be made of a document. */
export interface DraftsRequest {
  /** YAML or JSON. */
  readonly text: string
  /** `each`: a link an operation. `one`: one link for the whole API. */
  readonly as: 'each' | 'one'
  /** Base address of the API in place of the document's. */
  readonly server?: string | undefined
  /** Of operations that neither a rule nor the document names a price for. */
  readonly price?: Price | undefined
  readonly prices: ReadonlyMap<string, Price>
}

/** A link to be: what the document and the prices say of it. */
export interface Draft extends DescribedOperation {
  /** `POST /render`; `*` for the whole API. */
  readonly operation: string
  readonly operationId: string | null
  readonly price: Price
  /** Base address that its path follows. */
  readonly server: string
}

/** An operation without a link, and why. */
export interface LeftOutOperation {
  readonly operation: string
  readonly operationId: string | null
  readonly reason: string
}

export interface Drafts {
  /** Of the API. */
  readonly title: string
  /** Base address of the API. */
  readonly server: string
  /** Other addresses that the document names. */
  readonly otherServers: readonly string[]
  readonly drafts: readonly Draft[]
  readonly leftOut: readonly LeftOutOperation[]
}

/** Reads a document into links to be, in its own order. Nothing is fetched. @throws {ImportRefusal} */
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
  const leftOut: LeftOutOperation[] = [...unreadable]
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
      if (!(error instanceof LeftOut)) throw error
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
  const unreadable: LeftOutOperation[] = []
  for (const [path, value] of Object.entries(paths)) {
    if (path.startsWith('x-')) continue
    if (path.length > MAX_ADDRESS_CHARS) {
      const reason = `Its path has more than ${MAX_ADDRESS_CHARS} characters.`
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
    const message = `Expected at most ${MAX_OPERATIONS} operations, got ${count}. Import a part of the document at a time.`
    throw new ImportRefusal('document', message)
  }
  // An id that is there twice names nothing.
  const ids = found.map((one) => one.operationId)
  const isTwice = (id: string | null) => ids.indexOf(id) !== ids.lastIndexOf(id)
  return {
    found: found.map((one) => (isTwice(one.operationId) ? { ...one, operationId: null } : one)),
    unreadable,
  }
}

function idOf({ operationId }: Tree): string | null {
  return typeof operationId === 'string' && operationId !== ''
    ? operationId.toWellFormed().slice(0, 200)
    : null
}

/** `paths` may lead elsewhere as a whole. @throws {ImportRefusal} */
function pathsOf(root: Tree): Tree {
  try {
    const paths = followWithSiblings(root, root['paths'])
    return isTree(paths) ? paths : {}
  } catch (error) {
    if (!(error instanceof LeftOut)) throw error
    throw new ImportRefusal('document', error.message)
  }
}

/** A path item or an operation, or why there is none. */
function objectAt(root: Tree, value: unknown): Tree | string {
  try {
    const object = followWithSiblings(root, value)
    if (!isTree(object)) return 'Expected an object here, and there is none.'
    // A tool that does not merge writes the key as a text: what it would bring in may be a price.
    return Object.hasOwn(object, '<<') ? 'Its merge key "<<" is in quotes and merges nothing.' : object
  } catch (error) {
    if (error instanceof LeftOut) return error.message
    throw error
  }
}

function describe(
  document: OpenApiDocument,
  { of, item, method, path }: FoundOperation,
  server: string,
): DescribedOperation {
  if (!sold.includes(method)) throw new LeftOut(`Links do not take ${method}.`)
  if (of['deprecated'] === true) throw new LeftOut('It is deprecated.')
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

/** @throws {LeftOut} for what is no list: an operation without it would be another one */
function listAt(root: Tree, at: Tree, name: 'parameters' | 'servers'): unknown[] | undefined {
  const list = follow(root, at[name])
  if (list == null) return undefined
  if (!Array.isArray(list)) throw new LeftOut(`Its \`${name}\` is no list.`)
  return list
}

function priceStated({ of, item }: FoundOperation, root: Tree): Price | undefined {
  for (const at of [of, item, root]) {
    const misspelt = Object.keys(at).find((key) => key !== 'x-price' && /^x[-_]?price$/i.test(key))
    if (misspelt !== undefined)
      throw new LeftOut(`Its price stands under ${JSON.stringify(misspelt)}; expected "x-price".`)
    const price = statedPrice(at['x-price'])
    if (price === null)
      throw new LeftOut(
        `Its x-price is ${JSON.stringify(at['x-price'])?.slice(0, 100)}; expected a decimal string such as "0.01".`,
      )
    if (price !== undefined) return price
  }
}

function sellable(price: Price | undefined): Price {
  if (price === undefined)
    throw new LeftOut('It has no price: give one for all, a rule, or x-price in the document.')
  if (price === 'none') throw new LeftOut('It is not for sale: its price is none.')
  return price
}

/**
 * A link takes its own path and all below it, also where its operation has a parameter there: one that is cheaper than another it
 * leads to would sell that one for less, so it is left out; where it leads to what is not for sale, it says so.
 */
function withoutUndercut(
  drafts: readonly Draft[],
  leftOut: readonly LeftOutOperation[],
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
    const dearer = offered.find(
      (other) =>
        other.draft !== draft &&
        other.method === method &&
        isReached(other.address) &&
        isLess(price, other.draft.price),
    )?.draft
    if (dearer !== undefined) {
      const reason = `A link takes its own path and all below it: this one would sell ${dearer.operation} (${dearer.price}) for ${price}. Price them alike, or make one of them none.`
      out.push({ operation, operationId, reason })
      continue
    }
    const isHidden = reachedFrom(partsOf(splitOperation(operation)[1]).fixed)
    const hidden = unsold.find((one) => (one.method === method || one.method === '*') && isHidden(one.path))
    const note =
      hidden &&
      `Its link takes its own path and all below it: ${hidden.operation}, which is left out, is one of them.`
    kept.push(note === undefined ? draft : { ...draft, notes: [...draft.notes, note] })
  }
  return { drafts: kept, leftOut: out }
}

/** In the one spelling that servers read (RFC 3986, section 6.2.2.2): `/%61` is `/a`. */
const plainAddress = (url: string): string =>
  new URL(url).href.replace(/%[\da-f]{2}/gi, (octet) => {
    const character = String.fromCharCode(Number.parseInt(octet.slice(1), 16))
    return /[\w.~-]/.test(character) ? character : octet.toUpperCase()
  })

/** Whether an address is a link's own or below it. */
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
      'One link has one price: leave the rules out, or make a link of each operation.',
    )
  const its = price ?? statedPrice(root['x-price'])
  if (its == null || its === 'none')
    throw new ImportRefusal('price', 'Expected a price for the link, such as "0.01"; "0" is free.')
  const info = isTree(root['info']) ? root['info'] : {}
  const tags = Array.isArray(root['tags'])
    ? root['tags'].map((tag) => (isTree(tag) ? tag['name'] : undefined))
    : []
  const draft: Draft = {
    ...{ operation: '*', operationId: null, price: its, server: main, url: new URL(main).href, subPath: '' },
    ...{ title, description: descriptionOf(info), inputSchema: null, outputExample: null },
    methods: sold.filter((method) => found.some((one) => one.method === method)),
    ...{ tags: tagsOf(tags), slug: slugOf(title), notes: [] },
  }
  return { drafts: [draft], leftOut: [] }
}

/**
 * The address that an operation's path follows: its own server, its path's, or the document's.
 *
 * @param main address of the document's own `servers`, which own ones may be relative to
 * @throws {LeftOut} when it has none that a path can follow: at another it would be another operation
 */
function serverOf(root: Tree, { of, item }: FoundOperation, main: string | undefined): string {
  const own = serversOf(listAt(root, of, 'servers') ?? listAt(root, item, 'servers'))
  if (own.length === 0) {
    if (main !== undefined) return main
    throw new LeftOut('The document names no server for it: name the base address of the API as `server`.')
  }
  const base = firstBase(own.map((url) => (main === undefined ? url : absolute(url, main))))
  if (base !== undefined) return base
  throw new LeftOut(
    `Its own server ${JSON.stringify(own[0]!.slice(0, 200))} is no base address such as https://api.example.com/v1: name one as \`server\`.`,
  )
}

const absolute = (url: string, main: string): string => URL.parse(url, `${main}/`)?.href ?? url

/** The first address that an operation names for itself. */
function firstOwn(root: Tree, found: readonly FoundOperation[]): string | undefined {
  for (const one of found) {
    try {
      return serverOf(root, one, undefined)
    } catch (error) {
      if (!(error instanceof LeftOut)) throw error
    }
  }
}

function noServer(shown: string | undefined): ImportRefusal {
  const what = shown === undefined ? 'the document names none' : `got ${JSON.stringify(shown.slice(0, 200))}`
  return new ImportRefusal(
    'server',
    `Expected the base address of the API, such as https://api.example.com/v1; ${what}. Name it as \`server\`.`,
  )
}

const firstBase = (servers: readonly string[]): string | undefined =>
  servers.map(baseOf).find((base) => base !== undefined)

/** Addresses of `servers`, variables at their defaults; without those that are too long to be one. */
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

/** A base address without a slash at its end; undefined when no path can follow it. */
function baseOf(text: string): string | undefined {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return undefined
  const { origin, pathname, search, hash, username, password } = new URL(text)
  if (search !== '' || hash !== '' || username !== '' || password !== '' || /[{}]|%7b/i.test(text))
    return undefined
  return origin + pathname.replace(/\/+$/, '')
}
