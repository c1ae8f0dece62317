import { canonicalAddress } from '../../../core/domain/address.ts'
import type { TransactionRequest } from '../../effects/chainPlugin.ts'
import type { DecodeCode, Decoded, DecodeResult } from '../../effects/decoded.ts'
import type { Effect } from '../../effects/effect.ts'
import { finish } from '../../effects/finish.ts'
import { readJsonTransaction } from './jsonTransaction.ts'
import { readCall } from './readCall.ts'
import { type EvmTransaction, readTransaction, writeTransaction } from './transaction.ts'
import { warningsOf } from './warningsOf.ts'

/** Most bytes of a transaction: nodes refuse larger ones (EIP-7825's gas and the 128 KiB of common transaction pools). */
const MAX_BYTES = 131_072

/**
 * Decodes an unsigned EVM transaction: `0x` RLP or JSON, legacy with EIP-155, EIP-2930 or EIP-1559. The bytes are written
 * again from what was read and must be equal; JSON becomes those bytes first, so both ways pass the same checks.
 */
export function decodeTransaction(request: TransactionRequest): DecodeResult {
  const { chain, assets } = request
  const facts = assets.chains.of(chain)
  const from = canonicalAddress('eip155', request.account)
  if (facts.chainId === undefined || from === undefined)
    throw new TypeError('Expected an EVM chain and our address.')
  const spelled = bytesOf(request.unsignedTx, from)
  if (!('bytes' in spelled)) return no(spelled.code, spelled.message)
  const { bytes, encoding } = spelled
  const read = readTransaction(bytes)
  if (!read.ok) return no(bytes[0] === 3 || bytes[0] === 4 ? 'TX_OPAQUE' : 'INVALID_TX', read.message)
  const { transaction } = read
  if (!Buffer.from(writeTransaction(transaction)).equals(bytes)) {
    return no('INVALID_TX', 'Expected the one canonical encoding of the transaction.')
  }
  if (transaction.chainId !== facts.chainId) {
    const named = transaction.chainId ?? 'none, so that it would be valid on every chain'
    return no(
      'CHAIN_MISMATCH',
      `Expected chain id ${facts.chainId} of ${chain}, the transaction has ${named}.`,
    )
  }
  const effects = effectsOf(transaction, { ...request, account: from })
  const fee = {
    amount: transaction.gasLimit * transaction.maxFeePerGas,
    asset: assets.native(chain),
    payer: from,
  }
  const decoded: Decoded = finish(assets, {
    kind: 'transaction',
    chain,
    from,
    nonce: transaction.nonce,
    effects,
    fee,
    warnings: warningsOf(effects, from, request),
    frozenBytes: bytes,
    signingBytes: bytes,
    signKind: 'evm-transaction',
    encoding,
  })
  return { ok: true, decoded }
}

type Spelled =
  | { readonly bytes: Buffer; readonly encoding: 'hex' | 'json' }
  | { readonly code: DecodeCode; readonly message: string }

function bytesOf(input: unknown, from: string): Spelled {
  if (typeof input === 'string' && input.startsWith('0x')) {
    if (input.length > MAX_BYTES * 2 || !/^0x(?:[0-9a-fA-F]{2})+$/.test(input))
      return { code: 'INVALID_TX', message: 'Expected 0x and an even number of hex digits, at most 128 KiB.' }
    return { bytes: Buffer.from(input.slice(2), 'hex'), encoding: 'hex' }
  }
  const read = readJsonTransaction(input)
  if (!read.ok) return read
  if (read.from !== undefined && canonicalAddress('eip155', read.from) !== from)
    return { code: 'INVALID_TX', message: 'Expected from to be the address of this vault, or nothing.' }
  return { bytes: Buffer.from(writeTransaction(read.transaction)), encoding: 'json' }
}

function effectsOf({ to, value, data }: EvmTransaction, request: TransactionRequest): Effect[] {
  const { chain, assets, account } = request
  if (to === undefined) {
    const reason =
      value === 0n
        ? 'puts a new contract on the chain'
        : `puts a new contract on the chain and sends it ${value} wei`
    return [{ kind: 'opaque', target: 'a new contract', reason }, ...sent('a new contract')]
  }
  const contract = canonicalAddress('eip155', `0x${Buffer.from(to).toString('hex')}`)!
  if (data.length === 0) return sent(contract, true)
  return [...sent(contract), ...readCall(data, { chain, assets, from: account, to: contract })]

  function sent(payee: string, isAlways = false): Effect[] {
    if (value === 0n && !isAlways) return []
    return [
      { kind: 'transfer', asset: assets.native(chain), amount: value, from: account, to: payee, via: 'send' },
    ]
  }
}

const no = (code: DecodeCode, message: string): DecodeResult => ({ ok: false, code, message })
