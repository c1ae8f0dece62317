import type { VaultOperation } from '../../../core/plugin/vault.ts'
import { grantFor } from '../../agents/grant.ts'
import { VaultError } from '../../errors/error.ts'
import { planAddress } from '../operations/address.ts'
import { planCall } from '../operations/call.ts'
import { planPayment } from '../operations/payment.ts'
import { planPreview } from '../operations/preview.ts'
import { planMessage, planTransaction, planTypedData } from '../operations/signing.ts'
import { planDelete, planRead, planWrite } from '../operations/values.ts'
import type { VaultParts } from '../parts.ts'
import type { Plan } from '../plan.ts'
import type { VaultCall } from '../vaultCall.ts'
import type { HostPlugin } from './hostPlugin.ts'

type Planner = (x: VaultCall, parts: VaultParts) => Plan | Promise<Plan>

const planners: Readonly<Record<VaultOperation, Planner>> = {
  get_address: planAddress,
  vault_read: planRead,
  vault_write: planWrite,
  vault_delete: planDelete,
  vault_sign_tx: planTransaction,
  vault_sign_message: planMessage,
  vault_sign_typed_data: planTypedData,
  vault_sign_x402: planPayment,
  vault_preview: planPreview,
  vault_call: planCall,
}

/** Reads the request into the plan of what it would do: bytes are decoded and the claim about them is proved. */
export function createPlanning(parts: VaultParts): HostPlugin {
  return {
    name: 'plan',
    slots: { authorize: { reads: ['caller'], writes: ['request'] } },
    route(operation) {
      const plan = planners[operation]
      return {
        authorize(x) {
          const made = plan(x, parts)
          return made instanceof Promise ? made.then((late) => keep(x, late)) : keep(x, made)
        },
      }
    },
  }
}

function keep(x: VaultCall, plan: Plan): void {
  x.plan = plan
  x.scope = plan.scope
  x.request = plan.view
}

/** Holds an agent to its grants. The owner needs none, and has no wallet of an agent's to sign for. */
export const grants: HostPlugin = {
  name: 'grants',
  slots: { authorize: { reads: ['request'] } },
  route: () => ({
    authorize(x) {
      const { scope, verb, check } = x.plan!
      if (x.who.kind === 'agent') {
        const grant = grantFor(x.who.agent.grants, verb, scope)
        if (grant === undefined)
          throw new VaultError('SCOPE_DENIED', `This agent has no grant to ${verb} ${scope}.`, {
            details: { scope, verb },
          })
        if (grant.asks) x.requireApproval(`The grant of ${scope} says that the owner is asked each time.`)
      }
      check?.()
    },
  }),
}

/** Asks the owner's rules about what is to be signed. */
export function createRuling({ rules }: VaultParts): HostPlugin {
  return {
    name: 'rules',
    slots: { authorize: { reads: ['request'], writes: ['verdict'] } },
    route: () => ({
      authorize(x) {
        const { judged } = x.plan!
        if (judged === undefined) return
        if (x.who.kind !== 'agent')
          throw new VaultError('SCOPE_DENIED', 'Signing is for agents: register one and use its token.')
        const judgement = rules.judge({ agent: x.who.agent, ...judged })
        x.limits = judgement.limits
        if (judgement.outcome === 'refuse')
          throw new VaultError(judgement.code ?? 'APPROVAL_DENIED', judgement.reasons.join(' '))
        if (judgement.outcome === 'auto') return
        for (const reason of judgement.reasons) x.requireApproval(reason)
        if (judgement.reasons.length === 0) x.requireApproval('A rule asks for it.')
      },
    }),
  }
}
