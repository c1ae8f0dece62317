import { canonicalAddress } from '../../../core/domain/address.ts'
import { parseStrictJson } from '../../../core/x402/strictJson.ts'
import type { TypedDataRequest } from '../../effects/chainPlugin.ts'
import type { DecodeCode, DecodeResult, Effect } from '../../effects/effect.ts'
import { finish } from '../../effects/plainWords.ts'
import { warningsOf } from './decodeTransaction.ts'
import {
  integerOf,
  type TypedData,
  TypedDataProblem,
  type TypedField,
  typedDataLimits,
  typedDataPreimage,
} from './eip712.ts'
import { readTyped } from './readTyped.ts'

/** Maximum fields of a generic message that are shown individually. */
const MAX_SHOWN_FIELDS = 40

/**
 * Decodes EIP-712 typed data. Permits of EIP-2612 and Permit2 are allowances, and EIP-3009 authorizations are transfers.
 * Everything else is shown field by field and is opaque, because only its contract defines what it means. The domain must
 * name the chain, because the signature would otherwise be valid on every chain.
 */
export function decodeTypedData(request: TypedDataRequest): DecodeResult {
  const { chain, assets } = request
  const facts = assets.chains.of(chain)
  const from = canonicalAddress('eip155', request.account)
  if (facts.chainId === undefined || from === undefined)
    throw new TypeError("Expected an EVM chain and the vault's address.")
  const read = readInput(request.typedData)
  if (typeof read === 'string') return no('VALIDATION_ERROR', read)
  const named = read.domain['chainId']
  if (Object.hasOwn(read.domain, 'chainId') && integerOf(named) !== facts.chainId)
    return no('CHAIN_MISMATCH', `Expected domain.chainId to be ${facts.chainId} of ${chain}.`)
  let preimage: Uint8Array
  try {
    preimage = typedDataPreimage(read)
  } catch (error) {
    if (error instanceof TypedDataProblem) return no('VALIDATION_ERROR', error.message)
    throw error
  }
  const warnings: string[] = []
  const effects: Effect[] = []
  if (named === undefined) {
    warnings.push('The domain names no chain, so the signature would be valid on every chain.')
    effects.push({ kind: 'opaque', target: 'typed data', reason: 'signs data that is not bound to a chain' })
  }
  effects.push(...(readTyped(read, { chain, assets, from }) ?? generic(read)))
  const decoded = finish(assets, {
    kind: 'typed-data',
    chain,
    from,
    effects,
    fee: { amount: 0n, asset: assets.native(chain), payer: from },
    warnings: [...warnings, ...warningsOf(effects, from, request)],
    frozenBytes: preimage,
    signingBytes: preimage,
    signKind: 'evm-typed-data',
    encoding: 'none',
  })
  return { ok: true, decoded }
}

function readInput(input: unknown): TypedData | string {
  let value = input
  const { length } = typeof input === 'string' ? input : (JSON.stringify(input) ?? '')
  if (length > typedDataLimits.chars)
    return `Expected typed data of at most ${typedDataLimits.chars} characters as JSON, got ${length}.`
  if (typeof input === 'string') {
    const parsed = parseStrictJson(input)
    if (!parsed.ok) return `The typed data cannot be read. ${parsed.message}`
    value = parsed.value
  }
  const parts = ['domain', 'types', 'primaryType', 'message']
  if (!isObject(value) || Object.keys(value).some((key) => !parts.includes(key)))
    return 'Expected {domain, types, primaryType, message} and nothing else.'
  const { domain, types, primaryType, message } = value
  if (!isObject(domain) || !isObject(message) || !isObject(types) || typeof primaryType !== 'string')
    return 'Expected domain, types and message to be objects and primaryType a string.'
  const read = new Map<string, readonly TypedField[]>()
  for (const [name, fields] of Object.entries(types)) {
    if (!Array.isArray(fields) || !fields.every(isField))
      return 'Expected each type to be a list of {name, type}.'
    read.set(name, fields)
  }
  if (primaryType === 'EIP712Domain') return 'Expected primaryType to be a type of the message.'
  const problem = checkDomainType(read.get('EIP712Domain'), domain)
  if (problem !== undefined) return problem
  read.delete('EIP712Domain')
  return { domain, types: read, primaryType, message }
}

/** Checks that a type `EIP712Domain` lists the fields of `domain` in the standard's order, because that order is hashed. */
function checkDomainType(
  fields: readonly TypedField[] | undefined,
  domain: Record<string, unknown>,
): string | undefined {
  if (fields === undefined) return undefined
  const order: Record<string, string> = {
    name: 'string',
    version: 'string',
    chainId: 'uint256',
    verifyingContract: 'address',
    salt: 'bytes32',
  }
  const expected = Object.keys(order).filter((name) => Object.hasOwn(domain, name))
  const isSame =
    fields.length === expected.length &&
    fields.every(({ name, type }, i) => name === expected[i] && type === order[name])
  return isSame ? undefined : 'Expected types.EIP712Domain to list the fields of domain in their order.'
}

/**
 * The effects of a message whose meaning only its contract defines. Each field is shown in words, and the message is opaque.
 */
function generic({ domain, message }: TypedData): Effect[] {
  const contract =
    typeof domain['verifyingContract'] === 'string' ? domain['verifyingContract'] : 'no contract'
  const lines = flatten(message, '')
  const shown = lines.slice(0, MAX_SHOWN_FIELDS).map((line): Effect => ({ kind: 'note', text: line }))
  const reason = `signs typed data of ${lines.length} values, whose meaning only its contract defines`
  return [{ kind: 'opaque', target: contract, reason }, ...shown]
}

function flatten(value: unknown, path: string): string[] {
  if (typeof value !== 'object' || value === null) return [`${path}: ${String(value)}`]
  return Object.entries(value).flatMap(([key, inner]) => flatten(inner, path === '' ? key : `${path}.${key}`))
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const isField = (value: unknown): value is TypedField =>
  isObject(value) &&
  Object.keys(value).length === 2 &&
  typeof value['name'] === 'string' &&
  typeof value['type'] === 'string'

const no = (code: DecodeCode, message: string): DecodeResult => ({ ok: false, code, message })
