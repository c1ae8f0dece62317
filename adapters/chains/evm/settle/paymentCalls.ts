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

/** Most gas of a payment with a plain signature. A contract wallet's own check, or making the wallet first (ERC-6492), takes more. */
const PLAIN_GAS = 300_000
/** 0x and r, s and v. */
const PLAIN_SIGNATURE_CHARS = 132

/** The contract call that settles a payment; verification simulates the same one. */
export interface PaymentCall {
  readonly ok: true
  readonly call: EvmCall
  /** Whether the signature is one of 65 bytes, and no wallet has to be made for it. */
  readonly isPlain: boolean
  /** Most gas that the call may use. */
  readonly gas: number
  readonly authorization: Authorization
}

export interface PaymentCalls {
  prepare(payment: PaymentPayload, identity: PaymentIdentity): Promise<PaymentCall | Refusal>
}

export function createPaymentCalls(options: {
  readonly code: AccountCode
  readonly factories: readonly string[]
  readonly separators: Separators
  readonly maxGas: number
}): PaymentCalls {
  const factories = new Set(options.factories.map((factory) => factory.toLowerCase()))
  const prepared = (call: EvmCall, authorization: Authorization, signature: string): PaymentCall => {
    const isPlain = signature.length === PLAIN_SIGNATURE_CHARS
    const gas = isPlain ? Math.min(options.maxGas, PLAIN_GAS) : options.maxGas
    return { ok: true, call, isPlain, gas, authorization }
  }

  return {
    async prepare(payment, { asset }) {
      const read = readAuthorization(payment.payload)
      if (!read.ok) return read
      const authorization = withTokensV(read.authorization, asset, options.separators)
      const deployment = readDeployment(authorization.signature)
      if (deployment === undefined)
        return prepared(payCall(asset, authorization, undefined), authorization, authorization.signature)

      let isDeployed: boolean
      try {
        isDeployed = await options.code.isContract(authorization.from)
      } catch {
        return refuseForNow(reasons.verifyFault, 'The chain can not be asked about the payer now. Try again.')
      }
      if (isDeployed) {
        const unwrapped = { ...authorization, signature: deployment.innerSignature }
        return prepared(payCall(asset, unwrapped, undefined), authorization, unwrapped.signature)
      }
      // The factory is called with our gas, so the list is asked again here, whatever the check said.
      if (!factories.has(deployment.factory)) {
        return factoryNotAllowed
      }
      // This very call makes the wallet: its next payment must not meet what is remembered from before.
      options.code.forget(authorization.from)
      return prepared(payCall(asset, authorization, deployment), authorization, authorization.signature)
    },
  }
}
