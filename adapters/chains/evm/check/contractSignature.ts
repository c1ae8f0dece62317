import type { Refusal } from '../../../../core/ports/chains/settler.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { refuse, refuseForNow } from '../../refuse.ts'
import { reasons } from '../reasons.ts'
import type { AccountCode } from './accountCode.ts'
import { type ContractSignatureCheck, wrongSignature } from './check.ts'
import { type ContractVerdict, createContractJudge } from './contractJudge.ts'

export interface ContractSignatureOptions {
  readonly rpc: Rpc
  readonly code: AccountCode
  /** Factories that may be called to make a wallet (ERC-6492); empty allows none. */
  readonly factories: readonly string[]
  /** Gas that the wallet's own check may use. */
  readonly maxGas: number
}

/** Makes the check of payments whose signature is no plain account's. Nothing is sent to the chain. */
export function createContractSignatureCheck(options: ContractSignatureOptions): ContractSignatureCheck {
  const { rpc, code, maxGas } = options
  const factories = new Set(options.factories.map((factory) => factory.toLowerCase()))
  const judge = createContractJudge({ rpc, code, maxGas, mayCall: (factory) => factories.has(factory) })

  return async (authorization, digest) => {
    try {
      return refusals[await judge(authorization.from, digest, authorization.signature)]
    } catch {
      return refuseForNow(
        reasons.verifyFault,
        'The chain can not be asked about this signature now. Try again.',
      )
    }
  }
}

/** The wallet's first payment would have to make it, by a call that the settling account pays. */
export const factoryNotAllowed = refuse(
  reasons.factory,
  'The payer is a contract wallet that is not deployed yet, of a factory that this gateway does not call. Send something with that wallet first, or pay with another one.',
)

const refusals = {
  valid: undefined,
  invalid: refuse(reasons.signature, wrongSignature),
  factory_not_allowed: factoryNotAllowed,
} as const satisfies Record<ContractVerdict, Refusal | undefined>
