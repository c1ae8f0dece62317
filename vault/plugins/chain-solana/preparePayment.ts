import { readAddress } from '../../../core/solana/address.ts'
import { buildSolanaPayment } from '../../../core/x402/buildSolanaPayment.ts'
import { paymentAccounts, solanaAccountsFault } from '../../../core/x402/solanaAccountsFault.ts'
import { PaymentProblem, type PreparedPayment, type PreparePayment } from '../../effects/payment.ts'
import { decodeTransaction } from './decodeTransaction.ts'

/** About how long a block hash may be used: 150 slots of 0.4 s, with room. The block height decides. */
const BLOCKHASH_LIFE_MS = 90_000

/**
 * Builds the transfer of scheme `exact` with the fee payer of the offer. The node is asked for its own block hash and for
 * the accounts; a block hash of the offer is not used, and no account is made.
 */
export async function preparePayment(request: PreparePayment): Promise<PreparedPayment> {
  const { chain, account, assets, terms, nowMs, signal } = request
  const rpc = request.rpc(chain)
  if (rpc === undefined)
    throw new PaymentProblem('CHAIN_UNAVAILABLE', `Configure a node of ${chain}; nothing was signed.`)
  const addresses = paymentAccounts(terms, account)
  const [genesis, latest, accounts] = await Promise.all([
    rpc.genesisHash(signal),
    rpc.latestBlockhash(signal),
    rpc.accounts(addresses, signal),
  ]).catch((error: unknown) => {
    throw new PaymentProblem(
      'CHAIN_UNAVAILABLE',
      `The node of ${chain} did not answer; nothing was signed.`,
      {
        cause: error,
      },
    )
  })
  // CAIP-2 names a cluster by the first 32 characters of its genesis hash.
  if (`solana:${String(genesis).slice(0, 32)}` !== terms.asset.network)
    throw new PaymentProblem(
      'CHAIN_UNAVAILABLE',
      `The node serves another chain than ${chain}; nothing was signed.`,
    )
  const [mint, source, destination, wallet] = accounts
  const problem = solanaAccountsFault({ mint, source, destination, wallet }, terms, account)
  if (problem !== undefined) throw new PaymentProblem('VALIDATION_ERROR', `${problem}; nothing was signed.`)
  if (typeof latest.blockhash !== 'string' || readAddress(latest.blockhash) === undefined)
    throw new PaymentProblem(
      'CHAIN_UNAVAILABLE',
      `The node of ${chain} gave no block hash; nothing was signed.`,
    )

  const bytes = buildSolanaPayment(terms, account, latest.blockhash)
  const unsignedTx = Buffer.from(bytes).toString('base64')
  const read = decodeTransaction({ chain, account, assets, unsignedTx })
  if (!read.ok) throw new PaymentProblem('VALIDATION_ERROR', `${read.message} Nothing was signed.`)
  return {
    // That the seller pays the fee and sends it is what a payment is; no warning.
    decoded: Object.freeze({ ...read.decoded, kind: 'payment' as const, warnings: Object.freeze([]) }),
    validBeforeMs: nowMs + BLOCKHASH_LIFE_MS,
    payload: ({ signedTx }) => ({ transaction: signedTx }),
  }
}
