import type { PaymentIdentity } from '../../../core/domain/payment.ts'
import { reading, token, wordOf } from '../../../core/evm/token.ts'
import { systemClock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../core/x402/types.ts'
import type { EvmChainReaderOptions } from '../evm/prove/chainReader.ts'
import { createEvmRpc } from '../evm/rpc/createEvmRpc.ts'
import { checkSolanaPayment } from '../solana/check/checkSolanaPayment.ts'
import { simulatedAt } from '../solana/check/simulate.ts'
import type { SolanaRules } from '../solana/check/solanaRules.ts'
import type { Rpc, WithContext } from '../solana/rpc/createSolanaRpc.ts'

/**
 * What a payment's payer has where the payment comes from; undefined when the payment doesn't say where that is.
 * Rejects when no node answers.
 */
export type PayerBalance = (
  payment: PaymentPayload,
  terms: PaymentRequirements,
  identity: PaymentIdentity,
) => Promise<bigint | undefined>

/** Reads balances on an EVM chain; undefined without nodes. */
export function evmBalance(
  options: Pick<EvmChainReaderOptions, 'network' | 'clock' | 'log'> & {
    readonly rpcUrls?: readonly string[]
  },
): PayerBalance | undefined {
  const { network, rpcUrls = [], clock = systemClock, log = silentLog } = options
  if (rpcUrls.length === 0) return undefined
  const chainId = Number(network.slice('eip155:'.length))
  const rpc = createEvmRpc({ urls: rpcUrls, chainId, timeoutMs: 10_000, clock, log })
  return async (_payment, _terms, { asset, payer }) => {
    const { method, params } = reading(token.balanceOf(asset, payer.toLowerCase()))
    return wordOf(await rpc.call(method, ...params))
  }
}

/** Reads the balance of the very token account that a payment comes from. */
export const solanaBalance =
  (rpc: Rpc, rules: SolanaRules): PayerBalance =>
  async (payment, terms) => {
    const checked = checkSolanaPayment(payment, terms, rules)
    if (!checked.ok) return undefined
    const { value } = await rpc.call<WithContext<{ amount: string }>>(
      'getTokenAccountBalance',
      checked.source,
      { commitment: simulatedAt },
    )
    return BigInt(value.amount)
  }
