import { type RlpItem, readRlp, writeRlp } from './rlp.ts'

/** EIP-2681 bounds the nonce, clients bound gas to 64 bits as well. */
const max64 = 2n ** 64n - 1n
const max256 = 2n ** 256n - 1n

/** What an access list may have at most: it costs gas and moves nothing, and honest ones name what one call touches. */
export const accessListLimits = { entries: 256, keys: 1_024 } as const

/** An account and storage keys that are loaded ahead (EIP-2930); costs gas, moves nothing. */
export interface AccessListEntry {
  readonly address: Uint8Array
  readonly storageKeys: readonly Uint8Array[]
}

/** An unsigned transaction; numbers in wei or units of gas. */
export interface EvmTransaction {
  readonly type: 'legacy' | 'eip2930' | 'eip1559'
  /** Undefined only for a legacy transaction from before EIP-155, which is valid on every chain. */
  readonly chainId: bigint | undefined
  readonly nonce: bigint
  readonly gasLimit: bigint
  /** The most that a unit of gas may cost: `gasPrice`, or `maxFeePerGas`. */
  readonly maxFeePerGas: bigint
  /** EIP-1559 only. */
  readonly maxPriorityFeePerGas?: bigint
  /** 20 bytes; undefined creates a contract. */
  readonly to: Uint8Array | undefined
  readonly value: bigint
  readonly data: Uint8Array
  readonly accessList: readonly AccessListEntry[]
}

export type ReadTransaction =
  | { readonly ok: true; readonly transaction: EvmTransaction }
  | { readonly ok: false; readonly isTransaction: boolean; readonly message: string }

/**
 * Reads an unsigned transaction: legacy (EIP-155), EIP-2930 or EIP-1559. Strict RLP, integers without leading zeros and in
 * range, exactly the fields of its type. Signed transactions and the types of EIP-4844 and EIP-7702 are named and refused.
 */
export function readTransaction(bytes: Uint8Array): ReadTransaction {
  const type = bytes[0]
  if (type === undefined) return no('Expected a transaction, got no bytes.')
  if (type === 3) return no('Transactions with blobs (EIP-4844) are not signed here.', true)
  if (type === 4)
    return no('Transactions that hand the account to a contract (EIP-7702) are not signed here.', true)
  if (type >= 0xc0) return readLegacy(bytes)
  if (type !== 1 && type !== 2) return no('Expected a legacy, EIP-2930 or EIP-1559 transaction.')
  const fields = readRlp(bytes.subarray(1))
  if (!isList(fields)) return no('Expected strict RLP behind the transaction type.')
  const unsigned = type === 1 ? 8 : 9
  if (fields.length === unsigned + 3) return no('Expected an unsigned transaction, got a signed one.', true)
  if (fields.length !== unsigned) return no(`Expected ${unsigned} fields in this type, got ${fields.length}.`)
  const [chainId, nonce] = [integer(fields[0], max64), integer(fields[1], max64)]
  const fees = type === 1 ? fields.slice(2, 3) : fields.slice(2, 4)
  const rest = fields.slice(2 + fees.length)
  const accessList = readAccessList(rest[4])
  const body = readBody(rest)
  const [first, second] = fees.map((fee) => integer(fee, max256))
  const maxFeePerGas = type === 1 ? first : second
  if (
    chainId === undefined ||
    nonce === undefined ||
    accessList === undefined ||
    body === undefined ||
    first === undefined ||
    maxFeePerGas === undefined
  ) {
    return no('Expected each field in its shortest form and in range.')
  }
  if (!isWithinLimits(accessList)) return no(accessListTooLong)
  const common = { chainId, nonce, maxFeePerGas, accessList, ...body }
  if (type === 1) return { ok: true, transaction: { type: 'eip2930', ...common } }
  if (first > maxFeePerGas)
    return no('Expected the priority fee to be at most the whole fee of a unit of gas.')
  return { ok: true, transaction: { type: 'eip1559', ...common, maxPriorityFeePerGas: first } }
}

/** Writes an unsigned transaction, or with `signature` the signed one. What was read comes out as the same bytes. */
export function writeTransaction(
  transaction: EvmTransaction,
  signature?: { readonly r: bigint; readonly s: bigint; readonly yParity: 0 | 1 },
): Uint8Array {
  const { type, chainId, nonce, gasLimit, maxFeePerGas, to, value, data } = transaction
  const body = [integerBytes(gasLimit), to ?? new Uint8Array(0), integerBytes(value), data]
  if (type === 'legacy') {
    const fields = [integerBytes(nonce), integerBytes(maxFeePerGas), ...body]
    if (signature !== undefined) {
      const { r, s, yParity } = signature
      // EIP-155: the chain id is part of v.
      const v = chainId === undefined ? 27 + yParity : chainId * 2n + 35n + BigInt(yParity)
      return writeRlp([...fields, integerBytes(BigInt(v)), integerBytes(r), integerBytes(s)])
    }
    const tail = chainId === undefined ? [] : [chainId, 0n, 0n].map(integerBytes)
    return writeRlp([...fields, ...tail])
  }
  const fees = type === 'eip2930' ? [maxFeePerGas] : [transaction.maxPriorityFeePerGas ?? 0n, maxFeePerGas]
  const list = transaction.accessList.map((entry): RlpItem => [entry.address, entry.storageKeys])
  const tail =
    signature === undefined ? [] : [BigInt(signature.yParity), signature.r, signature.s].map(integerBytes)
  const fields = [chainId!, nonce, ...fees].map(integerBytes)
  return Buffer.concat([
    Uint8Array.of(type === 'eip2930' ? 1 : 2),
    writeRlp([...fields, ...body, list, ...tail]),
  ])
}

function readLegacy(bytes: Uint8Array): ReadTransaction {
  const fields = readRlp(bytes)
  if (!isList(fields)) return no('Expected strict RLP.')
  if (fields.length !== 6 && fields.length !== 9)
    return no(`Expected 9 fields in a legacy transaction, got ${fields.length}.`)
  const chainId = fields.length === 6 ? undefined : integer(fields[6], max64)
  if (fields.length === 9) {
    const isUnsigned = [fields[7], fields[8]].every((f) => f instanceof Uint8Array && f.length === 0)
    if (!isUnsigned) return no('Expected an unsigned transaction, got a signed one.', true)
    if (chainId === undefined || chainId === 0n) return no('Expected a chain id above zero (EIP-155).')
  }
  const [nonce, gasPrice] = [integer(fields[0], max64), integer(fields[1], max256)]
  const body = readBody(fields.slice(2))
  if (nonce === undefined || gasPrice === undefined || body === undefined)
    return no('Expected each field in its shortest form and in range.')
  return {
    ok: true,
    transaction: { type: 'legacy', chainId, nonce, maxFeePerGas: gasPrice, accessList: [], ...body },
  }
}

/** Gas limit, recipient, value, data: the same four in a row in every type. */
function readBody(
  fields: readonly RlpItem[],
): Pick<EvmTransaction, 'gasLimit' | 'to' | 'value' | 'data'> | undefined {
  const [gas, to, amount, data] = fields
  const [gasLimit, value] = [integer(gas, max64), integer(amount, max256)]
  if (gasLimit === undefined || value === undefined) return undefined
  if (!(to instanceof Uint8Array) || !(data instanceof Uint8Array)) return undefined
  if (to.length !== 0 && to.length !== 20) return undefined
  return { gasLimit, to: to.length === 0 ? undefined : to, value, data }
}

function readAccessList(item: RlpItem | undefined): AccessListEntry[] | undefined {
  if (!isList(item)) return undefined
  const entries: AccessListEntry[] = []
  for (const pair of item) {
    if (!isList(pair) || pair.length !== 2) return undefined
    const [address, keys] = pair
    if (!(address instanceof Uint8Array) || address.length !== 20 || !isList(keys)) return undefined
    const storageKeys = keys.filter(
      (key): key is Uint8Array => key instanceof Uint8Array && key.length === 32,
    )
    if (storageKeys.length !== keys.length) return undefined
    entries.push({ address, storageKeys })
  }
  return entries
}

/** Whether an access list is short enough to be shown to anybody. */
export const isWithinLimits = (list: readonly AccessListEntry[]): boolean =>
  list.length <= accessListLimits.entries &&
  list.reduce((keys, { storageKeys }) => keys + storageKeys.length, 0) <= accessListLimits.keys

export const accessListTooLong = `Expected an access list of at most ${accessListLimits.entries} accounts and ${accessListLimits.keys} storage keys.`

/** A number in big-endian bytes without leading zeros; zero is no bytes. */
function integer(item: RlpItem | undefined, max: bigint): bigint | undefined {
  if (!(item instanceof Uint8Array) || item[0] === 0 || item.length > 32) return undefined
  const value = item.length === 0 ? 0n : BigInt(`0x${Buffer.from(item).toString('hex')}`)
  return value <= max ? value : undefined
}

function integerBytes(value: bigint): Uint8Array {
  if (value === 0n) return new Uint8Array(0)
  const hex = value.toString(16)
  return Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex')
}

const isList = (item: RlpItem | undefined): item is readonly RlpItem[] => Array.isArray(item)

const no = (message: string, isTransaction = false): ReadTransaction => ({
  ok: false,
  isTransaction,
  message,
})
