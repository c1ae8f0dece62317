import type { PaymentIdentity } from '../../../core/domain/payment.ts'
import { reading, token, wordOf } from '../../../core/evm/token.ts'
import type { Rpc as EvmRpc } from '../../../core/rpc/rpc.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../core/x402/types.ts'
import { checkSolanaPayment } from '../solana/check/payment.ts'
import type { SolanaRules } from '../solana/check/rules.ts'
import { simulatedAt } from '../solana/check/simulation.ts'
import type { Rpc, WithContext } from '../solana/rpc/nodes.ts'

/**
 * The balance of the account that a payment comes from. Undefined if the payment does not name the account. Rejects if no node
 * responds.
 */
export type PayerBalance = (
  payment: PaymentPayload,
  terms: PaymentRequirements,
  identity: PaymentIdentity,
) => Promise<bigint | undefined>

/** Reads balances on an EVM chain. */
export const evmBalance =
  (rpc: EvmRpc): PayerBalance =>
  async (_payment, _terms, { asset, payer }) => {
    const { method, params } = reading(token.balanceOf(asset, payer.toLowerCase()))
    return wordOf(await rpc.call(method, ...params))
  }

/** Reads the balance of the token account that a payment comes from. */
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
