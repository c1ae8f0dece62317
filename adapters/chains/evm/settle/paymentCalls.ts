import type { PaymentIdentity } from '../../../../core/domain/payment.ts'
import type { EvmCall } from '../../../../core/evm/token.ts'
import type { Refusal } from '../../../../core/ports/chains/settler.ts'
import type { PaymentPayload } from '../../../../core/x402/types.ts'
import { refuseForNow } from '../../refuse.ts'
import type { AccountCode } from '../check/accountCode.ts'
import { type Authorization, readAuthorization } from '../check/authorization.ts'
import { factoryNotAllowed } from '../check/contractSignature.ts'
import { type Separators, withTokensV } from '../check/plainSignature.ts'
import { reasons } from '../reasons.ts'
import { payCall, readDeployment } from './payCall.ts'

/** The contract call that settles a payment; verification simulates the same one. */
export interface PaymentCalls {
  prepare(
    payment: PaymentPayload,
    identity: PaymentIdentity,
  ): Promise<{ readonly ok: true; readonly call: EvmCall; readonly authorization: Authorization } | Refusal>
}

export function createPaymentCalls(options: {
  readonly code: AccountCode
  readonly factories: readonly string[]
  readonly separators: Separators
}): PaymentCalls {
  const factories = new Set(options.factories.map((factory) => factory.toLowerCase()))
  return {
    async prepare(payment, { asset }) {
      const read = readAuthorization(payment.payload)
      if (!read.ok) return read
      const authorization = withTokensV(read.authorization, asset, options.separators)
      const deployment = readDeployment(authorization.signature)
      if (deployment === undefined)
        return { ok: true, authorization, call: payCall(asset, authorization, undefined) }

      let isDeployed: boolean
      try {
        isDeployed = await options.code.isContract(authorization.from)
      } catch {
        return refuseForNow(reasons.verifyFault, 'The chain can not be asked about the payer now. Try again.')
      }
      if (isDeployed) {
        const unwrapped = { ...authorization, signature: deployment.innerSignature }
        return { ok: true, authorization, call: payCall(asset, unwrapped, undefined) }
      }
      // The factory is called with our gas, so the list is asked again here, whatever the check said.
      if (!factories.has(deployment.factory)) {
        return factoryNotAllowed
      }
      // This very call makes the wallet: its next payment must not meet what is remembered from before.
      options.code.forget(authorization.from)
      return { ok: true, authorization, call: payCall(asset, authorization, deployment) }
    },
  }
}
