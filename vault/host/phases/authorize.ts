import type { VaultOperation } from '../../../core/plugin/vault.ts'
import { type GrantVerb, grantFor } from '../../agents/grant.ts'
import { VaultError } from '../../errors/error.ts'
import { isScope } from '../../storage/scopes.ts'
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

/**
 * Turns an agent without the grant away before anything of its request is decoded, looked up or asked of a node: what the
 * request names as its scope or chain is enough for that.
 */
export function createGranting(parts: VaultParts): HostPlugin {
  return {
    name: 'grants',
    slots: { authorize: { reads: ['caller'] } },
    route: (operation) => ({
      authorize({ who, input }) {
        if (who.kind !== 'agent') return
        const wanted = wants[operation](input, parts)
        const isGranted = wanted.some(
          ({ verb, scope }) => grantFor(who.agent.grants, verb, scope) !== undefined,
        )
        if (wanted.length > 0 && !isGranted) throw denied(wanted[0]!)
      },
    }),
  }
}

interface Wanted {
  readonly verb: GrantVerb
  readonly scope: string
}
type Wants = (input: Readonly<Record<string, unknown>>, parts: VaultParts) => readonly Wanted[]

/** None where the request names nothing that there is: the plan says so, before it decodes. */
const onChain =
  (verb: GrantVerb): Wants =>
  ({ chain }, { assets }) => {
    const facts = assets.chains.named(chain)
    return facts === undefined ? [] : [{ verb, scope: `wallet.${facts.name}` }]
  }
const ofScope =
  (verb: GrantVerb): Wants =>
  ({ scope }) =>
    typeof scope === 'string' && isScope(scope)
      ? [{ verb: verb === 'read' && scope.startsWith('wallet.') ? 'address' : verb, scope }]
      : []
/** An offer names its chains itself; the agent must have one of them, and is held to it once one is chosen. */
const onAnyChain: Wants = ({ network }, { assets, enabled }) => {
  const named = typeof network === 'string' ? assets.chains.ofNetwork(network) : undefined
  const chains = typeof network !== 'string' ? enabled : named === undefined ? [] : [named.name]
  return chains.map((name) => ({ verb: 'sign', scope: `wallet.${name}` }))
}

/** Any one of these lets a request be looked at. */
const wants: Readonly<Record<VaultOperation, Wants>> = {
  get_address: onChain('address'),
  vault_read: ofScope('read'),
  vault_write: ofScope('write'),
  vault_delete: ofScope('write'),
  vault_sign_tx: onChain('sign'),
  vault_sign_message: onChain('sign'),
  vault_sign_typed_data: onChain('sign'),
  vault_sign_x402: onAnyChain,
  vault_preview: onChain('sign'),
  vault_call: ofScope('call'),
}

const denied = ({ verb, scope }: Wanted): VaultError =>
  new VaultError('SCOPE_DENIED', `This agent has no grant to ${verb} ${scope}.`, { details: { scope, verb } })

/** Holds an agent to its grants. The owner needs none, and has no wallet of an agent's to sign for. */
export const grants: HostPlugin = {
  name: 'plan-grants',
  slots: { authorize: { reads: ['request'] } },
  route: () => ({
    authorize(x) {
      const { scope, verb, check } = x.plan!
      if (x.who.kind === 'agent') {
        const grant = grantFor(x.who.agent.grants, verb, scope)
        if (grant === undefined) throw denied({ verb, scope })
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
        const { judged, reasons } = x.plan!
        if (judged === undefined) return
        if (x.who.kind !== 'agent')
          throw new VaultError('SCOPE_DENIED', 'Signing is for agents: register one and use its token.')
        const judgement = rules.judge({ agent: x.who.agent, ...judged })
        x.limits = judgement.limits
        if (judgement.outcome === 'refuse')
          throw new VaultError(judgement.code ?? 'APPROVAL_DENIED', judgement.reasons.join(' '), {
            ...(judgement.action !== undefined && { action: judgement.action }),
          })
        for (const reason of reasons) x.requireApproval(reason)
        if (judgement.outcome === 'auto') return
        for (const reason of judgement.reasons) x.requireApproval(reason)
        if (judgement.reasons.length === 0) x.requireApproval('A rule asks for it.')
      },
    }),
  }
}
