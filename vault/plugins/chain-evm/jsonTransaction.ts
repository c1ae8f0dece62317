import type { AccessList } from 'ox/AccessList'
import type { Hex } from 'ox/Hex'
import { parseStrictJson } from '../../../core/x402/strictJson.ts'
import type { EvmTransaction } from './transaction.ts'

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
 * Parses a transaction from JSON, text or object. Every field that decides what is signed must be present, because the vault
 * adds nothing that the agent did not request. Unknown fields, fields of another type, and two names for one field with
 * different values are refused. Quantities are 0x hex, decimal digits or safe integers.
 */
export function readJsonTransaction(input: unknown): ReadJson {
  let value = input
  if (typeof input === 'string') {
    const parsed = parseStrictJson(input, { maxDepth: 8 })
    if (!parsed.ok) return no(`The transaction cannot be read. ${parsed.message}`)
    value = parsed.value
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return no('Expected the transaction as a JSON object.')
  const fields = new Map(Object.entries(value))
  for (const name of fields.keys()) {
    const [unsigned] = /^(?:authorizationList|blob|maxFeePerBlobGas|sidecars)/.exec(name) ?? []
    if (unsigned !== undefined)
      return { ok: false, code: 'TX_OPAQUE', message: `Transactions with ${unsigned} are not supported.` }
    if (!known.has(name))
      return no(`Expected only fields of a transaction, got ${JSON.stringify(name.slice(0, 40))}.`)
  }
  const type = typeOf(fields)
  if (type === undefined) return no('Expected `type` to be 0, 1 or 2 and the fee fields of that type.')
  return build(fields, type)
}

function build(fields: ReadonlyMap<string, unknown>, type: EvmTransaction['type']): ReadJson {
  const fees = type === 'eip1559' ? ['maxFeePerGas', 'maxPriorityFeePerGas'] : ['gasPrice']
  const given: [string, unknown][] = [
    ['chainId', fields.get('chainId')],
    ['nonce', fields.get('nonce')],
    ['gas', same(fields, 'gas', 'gasLimit')],
    ['value', fields.has('value') ? fields.get('value') : 0],
    ...fees.map((name): [string, unknown] => [name, fields.get(name)]),
  ]
  const numbers = new Map<string, bigint>()
  for (const [name, value] of given) {
    const number = quantity(value)
    if (number === undefined) return no(`Expected ${name} as 0x hex, decimal digits or a safe integer.`)
    numbers.set(name, number)
  }
  const data = same(fields, 'data', 'input') ?? '0x'
  const to = fields.get('to') ?? undefined
  if (!isHex(data)) return no('Expected `data` as 0x and an even number of hex digits.')
  if (to !== undefined && !isHex(to, 20)) return no('Expected `to` as 0x and 40 hex digits.')
  const accessList = readAccessList(fields.get('accessList'))
  if (accessList === undefined) return no('Expected `accessList` as a list of {address, storageKeys}.')
  const from = fields.get('from')
  if (from !== undefined && typeof from !== 'string') return no('Expected `from` as an address.')
  const transaction = {
    ...Object.fromEntries(numbers),
    type,
    chainId: Number(numbers.get('chainId')),
    data,
    ...(to !== undefined && { to }),
    ...(type !== 'legacy' && { accessList }),
  } as EvmTransaction
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

/** The value of a field that has two names. If the values differ, it is a symbol that no parser accepts. */
function same(fields: ReadonlyMap<string, unknown>, a: string, b: string): unknown {
  if (fields.has(a) && fields.has(b) && fields.get(a) !== fields.get(b)) return Symbol('differs')
  return fields.has(a) ? fields.get(a) : fields.get(b)
}

function quantity(value: unknown): bigint | undefined {
  if (typeof value === 'number') return Number.isSafeInteger(value) && value >= 0 ? BigInt(value) : undefined
  if (typeof value !== 'string') return undefined
  return /^(0x[0-9a-fA-F]{1,64}|0|[1-9]\d{0,77})$/.test(value) ? BigInt(value) : undefined
}

/** @param bytes the required number of bytes. Omitted: any number */
function isHex(value: unknown, bytes?: number): value is Hex {
  if (typeof value !== 'string' || !/^0x(?:[0-9a-fA-F]{2})*$/.test(value)) return false
  return bytes === undefined || value.length === 2 + 2 * bytes
}

function readAccessList(value: unknown): AccessList | undefined {
  if (value === undefined) return []
  const isEntry = (entry: unknown): boolean => {
    if (typeof entry !== 'object' || entry === null || Object.keys(entry).length !== 2) return false
    const { address, storageKeys } = entry as { address?: unknown; storageKeys?: unknown }
    return isHex(address, 20) && Array.isArray(storageKeys) && storageKeys.every((key) => isHex(key, 32))
  }
  return Array.isArray(value) && value.every(isEntry) ? (value as unknown as AccessList) : undefined
}

const no = (message: string): ReadJson => ({ ok: false, code: 'INVALID_TX', message })
