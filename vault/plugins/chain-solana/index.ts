import { base58 } from '@scure/base'
import { readAddress } from '../../../core/solana/addresses.ts'
import { verifyEd25519 } from '../../../core/solana/ed25519.ts'
import { readMessage } from '../../../core/solana/message.ts'
import { readWireTransaction, sameBytes } from '../../../core/solana/wire.ts'
import { buildSolanaPayment } from '../../../core/x402/solanaPayment.ts'
import {
  paymentAccounts,
  solanaAccountsFault,
  solanaTermsFault,
} from '../../../core/x402/solanaTermsFault.ts'
import { type Assembled, chainPlugin, type MessageRequest, messageBytes } from '../../effects/chainPlugin.ts'
import type { Decoded, DecodeResult, Effect } from '../../effects/effect.ts'
import { PaymentProblem, type PreparedPayment, type PreparePayment } from '../../effects/payment.ts'
import { finish } from '../../effects/plainWords.ts'
import { decodeTransaction } from './decodeTransaction.ts'

/**
 * Puts the vault's signature into its slot of the decoded transaction. It first verifies the signature as strictly as the
 * cluster does.
 *
 * @param signature 64 bytes
 * @throws {TypeError} when the signature is not the vault's over these bytes
 */
function assemble(decoded: Decoded, signature: Uint8Array): Assembled {
  const ours = readAddress(decoded.from)
  if (ours === undefined || !verifyEd25519(ours, decoded.signingBytes, signature))
    throw new TypeError('Expected a signature of 64 bytes by the account over the bytes that were shown.')
  if (decoded.signKind !== 'solana-transaction')
    return { signedTx: null, signature: base58.encode(signature) }
  const bytes = Uint8Array.from(decoded.frozenBytes)
  const wire = readWireTransaction(bytes)
  const keys = wire === undefined ? undefined : readMessage(wire.message)?.keys
  const slot = wire?.signatures[keys?.findIndex((key) => sameBytes(key, ours)) ?? -1]
  if (slot === undefined) throw new TypeError("Expected a transaction with a slot for the vault's signature.")
  slot.set(signature)
  return { signedTx: Buffer.from(bytes).toString('base64'), signature: base58.encode(signature) }
}

/** Estimated lifetime of a block hash, in ms: 150 slots of 0.4 s, with a margin. Only the block height is exact. */
const BLOCKHASH_LIFE_MS = 90_000

/**
 * Builds the transfer of scheme `exact` with the offer's fee payer. The vault requests the block hash and the accounts from
 * its own node. A block hash in the offer is not used, and no account is created.
 */
async function preparePayment(request: PreparePayment): Promise<PreparedPayment> {
  const { chain, account, assets, terms, nowMs, signal } = request
  const rpc = request.rpc(chain)
  if (rpc === undefined)
    throw new PaymentProblem(
      'CHAIN_UNAVAILABLE',
      `No node of ${chain} is configured. Configure a node. Nothing was signed.`,
    )
  const addresses = paymentAccounts(terms, account)
  const [genesis, latest, accounts] = await Promise.all([
    rpc.genesisHash(signal),
    rpc.latestBlockhash(signal),
    rpc.accounts(addresses, signal),
  ]).catch((error: unknown) => {
    throw new PaymentProblem(
      'CHAIN_UNAVAILABLE',
      `The node of ${chain} did not respond. Nothing was signed.`,
      {
        cause: error,
      },
    )
  })
  // A cluster's CAIP-2 id contains the first 32 characters of its genesis hash.
  if (`solana:${String(genesis).slice(0, 32)}` !== terms.asset.network)
    throw new PaymentProblem(
      'CHAIN_UNAVAILABLE',
      `The configured node does not serve ${chain}. Nothing was signed.`,
    )
  const [mint, source, destination, wallet] = accounts
  const problem = solanaAccountsFault({ mint, source, destination, wallet }, terms, account)
  if (problem !== undefined) throw new PaymentProblem('VALIDATION_ERROR', `${problem}. Nothing was signed.`)
  if (typeof latest.blockhash !== 'string' || readAddress(latest.blockhash) === undefined)
    throw new PaymentProblem(
      'CHAIN_UNAVAILABLE',
      `The node of ${chain} returned no block hash. Nothing was signed.`,
    )

  const bytes = buildSolanaPayment(terms, account, latest.blockhash)
  const unsignedTx = Buffer.from(bytes).toString('base64')
  const read = decodeTransaction({ chain, account, assets, unsignedTx })
  if (!read.ok) throw new PaymentProblem('VALIDATION_ERROR', `${read.message} Nothing was signed.`)
  return {
    // The warning that the seller pays the fee and sends the transaction is removed, because this is so for every payment.
    decoded: Object.freeze({ ...read.decoded, kind: 'payment' as const, warnings: Object.freeze([]) }),
    validBeforeMs: nowMs + BLOCKHASH_LIFE_MS,
    payload: ({ signedTx }) => ({ transaction: signedTx }),
  }
}

/** The plugin of Solana and its test clusters. It decodes legacy and version 0 transactions, and messages. */
export default chainPlugin({
  name: 'chain-solana',
  api: 1,
  family: 'solana',
  decodeTransaction,
  decodeMessage,
  termsFault: solanaTermsFault,
  preparePayment,
  assemble,
})

/** Maximum size of a message, in bytes. The owner has to read it. */
const MAX_BYTES = 16_384
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Decodes a message for wallets' `signMessage`. Solana signs messages without a prefix. If a message were also a transaction,
 * its signature would be valid for the transaction. So a message that parses as a transaction is refused. A message is also
 * refused if its first byte may mark a transaction version, which no text begins with.
 */
function decodeMessage(request: MessageRequest): DecodeResult {
  const { chain, account, assets } = request
  if (assets.chains.of(chain).family !== 'solana' || readAddress(account) === undefined)
    throw new TypeError("Expected a Solana cluster and the vault's address.")
  const bytes = messageBytes(request, MAX_BYTES)
  if (bytes === undefined)
    return no(`Expected a message of 1 to ${MAX_BYTES} bytes in the encoding that is named.`)
  if (isTransaction(bytes))
    return no(
      'Expected a text message, got a transaction. Sign the transaction with vault_sign_tx (POST /v1/vault/sign).',
    )
  const effects = effectsOf(bytes)
  const decoded = finish(assets, {
    kind: 'message',
    chain,
    from: account,
    effects,
    fee: { amount: 0n, asset: assets.native(chain), payer: account },
    warnings: [],
    frozenBytes: bytes,
    signingBytes: bytes,
    signKind: 'solana-message',
    encoding: 'none',
  })
  return { ok: true, decoded }
}

function isTransaction(bytes: Uint8Array): boolean {
  const first = bytes[0]!
  // 0x80 to 0xbf mark versions 0 to 63 of a transaction. A UTF-8 text cannot begin with such a byte.
  if (first >= 0x80 && first < 0xc0) return true
  if (readMessage(bytes) !== undefined) return true
  const wire = readWireTransaction(bytes)
  return wire !== undefined && readMessage(wire.message) !== undefined
}

function effectsOf(bytes: Uint8Array): Effect[] {
  try {
    return [{ kind: 'note', text: utf8.decode(bytes) }]
  } catch {
    return [{ kind: 'opaque', target: 'a message', reason: `signs ${bytes.length} bytes that are not text` }]
  }
}

const no = (message: string): DecodeResult => ({ ok: false, code: 'VALIDATION_ERROR', message })
