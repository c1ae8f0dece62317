import { parseStrictJson } from '../../../core/x402/strictJson.ts'
import { accessListTooLong, type EvmTransaction, isWithinLimits } from './transaction.ts'

export type ReadJson =
  | { readonly ok: true; readonly transaction: EvmTransaction; readonly from: string | undefined }
  | { readonly ok: false; readonly code: 'INVALID_TX' | 'TX_OPAQUE'; readonly message: string }

/** The fields of a transaction as JSON-RPC (`eth_signTransaction`) and the common libraries name them. */
const known = new Set([
  'type',
  'chainId',
  'from',
  'nonce',
  'to',
  'value',
  'data',
  'input',
  'gas',
  'gasLimit',
  'gasPrice',
  'maxFeePerGas',
  'maxPriorityFeePerGas',
  'accessList',
])

const types: Readonly<Record<string, EvmTransaction['type']>> = {
  '0x0': 'legacy',
  '0': 'legacy',
  legacy: 'legacy',
  '0x1': 'eip2930',
  '1': 'eip2930',
  eip2930: 'eip2930',
  '0x2': 'eip1559',
  '2': 'eip1559',
  eip1559: 'eip1559',
}

/**
 * Reads a transaction as JSON, text or object. Every field that decides what is signed must be there: the vault fills in
 * nothing, because what it filled in nobody asked for. Unknown fields, two names for one thing that differ, and the
 * fields of another type are refused. Quantities are 0x hex, decimal digits or safe integers.
 */
export function readJsonTransaction(input: unknown): ReadJson {
  let value = input
  if (typeof input === 'string') {
    const parsed = parseStrictJson(input, { maxDepth: 8 })
    if (!parsed.ok) return no(`The transaction is not readable. ${parsed.message}`)
    value = parsed.value
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return no('Expected the transaction as a JSON object.')
  const fields = new Map(Object.entries(value))
  for (const name of fields.keys()) {
    const [unsigned] = /^(?:authorizationList|blob|maxFeePerBlobGas|sidecars)/.exec(name) ?? []
    if (unsigned !== undefined)
      return { ok: false, code: 'TX_OPAQUE', message: `Transactions with ${unsigned} are not signed here.` }
    if (!known.has(name))
      return no(`Expected only fields of a transaction, got ${JSON.stringify(name.slice(0, 40))}.`)
  }
  const type = typeOf(fields)
  if (type === undefined) return no('Expected type to be 0, 1 or 2 and the fee fields of that type.')
  return build(fields, type)
}

function build(fields: ReadonlyMap<string, unknown>, type: EvmTransaction['type']): ReadJson {
  const gasLimit = same(fields, 'gas', 'gasLimit')
  const data = same(fields, 'data', 'input')
  const isNew = type === 'eip1559'
  const numbers = {
    chainId: quantity(fields.get('chainId')),
    nonce: quantity(fields.get('nonce')),
    gasLimit: quantity(gasLimit),
    maxFeePerGas: quantity(fields.get(isNew ? 'maxFeePerGas' : 'gasPrice')),
    value: fields.has('value') ? quantity(fields.get('value')) : 0n,
  }
  for (const [name, number] of Object.entries(numbers)) {
    if (number === undefined) return no(`Expected ${name} as 0x hex, decimal digits or a safe integer.`)
  }
  const priority = isNew ? quantity(fields.get('maxPriorityFeePerGas')) : undefined
  if (isNew && priority === undefined) return no('Expected maxPriorityFeePerGas in an EIP-1559 transaction.')
  const bytes = data === undefined ? new Uint8Array(0) : hexBytes(data)
  const to = fields.get('to') == null ? undefined : hexBytes(fields.get('to'))
  if (bytes === undefined) return no('Expected data as 0x and an even number of hex digits.')
  if (fields.get('to') != null && to?.length !== 20) return no('Expected to as 0x and 40 hex digits.')
  const accessList = readAccessList(fields.get('accessList'))
  if (accessList === undefined) return no('Expected accessList as a list of {address, storageKeys}.')
  if (!isWithinLimits(accessList)) return no(accessListTooLong)
  const from = fields.get('from')
  if (from !== undefined && typeof from !== 'string') return no('Expected from as an address.')
  const transaction: EvmTransaction = {
    ...(numbers as { [K in keyof typeof numbers]: bigint }),
    type,
    to,
    data: bytes,
    accessList,
    ...(priority === undefined ? {} : { maxPriorityFeePerGas: priority }),
  }
  return { ok: true, transaction, from }
}

function typeOf(fields: ReadonlyMap<string, unknown>): EvmTransaction['type'] | undefined {
  const named = fields.get('type')
  const hasNew = fields.has('maxFeePerGas') || fields.has('maxPriorityFeePerGas')
  const hasList = fields.has('accessList')
  const type =
    named === undefined
      ? hasNew
        ? 'eip1559'
        : hasList
          ? 'eip2930'
          : 'legacy'
      : Object.hasOwn(types, String(named))
        ? types[String(named)]
        : undefined
  if (type === 'eip1559' && fields.has('gasPrice')) return undefined
  if (type !== 'eip1559' && hasNew) return undefined
  return type === 'legacy' && hasList ? undefined : type
}

/** The value of a field that has two names; a symbol that no reader accepts when they differ. */
function same(fields: ReadonlyMap<string, unknown>, a: string, b: string): unknown {
  if (fields.has(a) && fields.has(b) && fields.get(a) !== fields.get(b)) return Symbol('differs')
  return fields.has(a) ? fields.get(a) : fields.get(b)
}

function quantity(value: unknown): bigint | undefined {
  if (typeof value === 'number') return Number.isSafeInteger(value) && value >= 0 ? BigInt(value) : undefined
  if (typeof value !== 'string') return undefined
  return /^(0x[0-9a-fA-F]{1,64}|0|[1-9]\d{0,77})$/.test(value) ? BigInt(value) : undefined
}

function hexBytes(value: unknown): Uint8Array | undefined {
  return typeof value === 'string' && /^0x(?:[0-9a-fA-F]{2})*$/.test(value)
    ? Buffer.from(value.slice(2), 'hex')
    : undefined
}

function readAccessList(value: unknown): EvmTransaction['accessList'] | undefined {
  if (value === undefined) return []
  if (!Array.isArray(value)) return undefined
  const entries: { address: Uint8Array; storageKeys: Uint8Array[] }[] = []
  for (const entry of value as unknown[]) {
    if (typeof entry !== 'object' || entry === null || Object.keys(entry).length !== 2) return undefined
    const { address, storageKeys } = entry as { address?: unknown; storageKeys?: unknown }
    const account = hexBytes(address)
    if (account?.length !== 20 || !Array.isArray(storageKeys)) return undefined
    const keys = storageKeys.map(hexBytes).filter((key): key is Uint8Array => key?.length === 32)
    if (keys.length !== storageKeys.length) return undefined
    entries.push({ address: account, storageKeys: keys })
  }
  return entries
}

const no = (message: string): ReadJson => ({ ok: false, code: 'INVALID_TX', message })
