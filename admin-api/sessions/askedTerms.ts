import { isSameAddress } from '../../core/domain/address.ts'
import { familyOf } from '../../core/domain/network.ts'
import type { Session } from '../../core/domain/session.ts'
import type { PaymentRequirements } from '../../core/x402/types.ts'

/** Of the ways to pay a session's price those that it takes: all of them, or where it asks for one token that one, exactly. */
export const askedTerms = <Terms extends Pick<PaymentRequirements, 'network' | 'asset' | 'amount'>>(
  { asks }: Pick<Session, 'asks'>,
  terms: readonly Terms[],
): readonly Terms[] =>
  asks === null
    ? terms
    : terms
        .filter(
          ({ network, asset }) =>
            network === asks.network && isSameAddress(familyOf(network), asset, asks.asset),
        )
        .map((one) => ({ ...one, amount: String(asks.amountAtomic) }))
