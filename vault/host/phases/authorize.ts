import type { VaultOperation } from '../../../core/plugin/vault.ts'
import type { Agent } from '../../agents/agent.ts'
import { type GrantVerb, grantFor } from '../../agents/grant.ts'
import { VaultError } from '../../errors/error.ts'
import { isScope } from '../../storage/records/scopes.ts'
import { signatureId } from '../hashOf.ts'
import { planAddress } from '../operations/address.ts'
import { planCall } from '../operations/call.ts'
import { planPayment } from '../operations/payment.ts'
import { planPreview } from '../operations/preview.ts'
import { planMessage, planTransaction, planTypedData } from '../operations/signing.ts'
import { planDelete, planRead, planWrite } from '../operations/values.ts'
import type { VaultParts } from '../parts.ts'
import type { Plan } from '../plan.ts'
import type { Judgement, Rules } from '../rules.ts'
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

/** The grant that covers a plan. @throws `SCOPE_DENIED` */
function assertGranted(agent: Agent, { verb, scope }: Plan): { readonly asks: boolean } {
  const grant = grantFor(agent.grants, verb, scope)
  if (grant === undefined) throw denied({ verb, scope })
  return grant
}

/** Holds an agent to its grants. The owner needs none, and has no wallet of an agent's to sign for. */
export const grants: HostPlugin = {
  name: 'plan-grants',
  slots: { authorize: { reads: ['request'] } },
  route: () => ({
    authorize(x) {
      const { scope, check } = x.plan!
      if (x.who.kind === 'agent') {
        const grant = assertGranted(x.who.agent, x.plan!)
        if (grant.asks) x.requireApproval(`The grant of ${scope} says that the owner is asked each time.`)
      }
      check?.()
    },
  }),
}

/** What the owner's rules say to what an agent would have signed, where they do not refuse it. @throws what they refuse it with */
function ruleOn(agent: Agent, x: VaultCall, rules: Rules, isCounted: boolean): Judgement | undefined {
  const { judged } = x.plan!
  if (judged === undefined) return undefined
  const judgement = rules.judge({ agent, ...judged, isCounted })
  if (judgement.outcome !== 'refuse') return judgement
  throw new VaultError(judgement.code ?? 'APPROVAL_DENIED', judgement.reasons.join(' '), {
    ...(judgement.action !== undefined && { action: judgement.action }),
  })
}

/**
 * What let a request wait for its owner's answer may be gone when the answer comes: the agent, its scope, its rules. The
 * money is held back already.
 *
 * @param agent as it is now; undefined when it is gone
 * @throws what a new request would be refused with
 */
export function assertStillAllowed(agent: Agent | undefined, x: VaultCall, rules: Rules): void {
  if (agent === undefined || agent.revokedAt !== null) throw new VaultError('UNAUTHORIZED')
  assertGranted(agent, x.plan!)
  ruleOn(agent, x, rules, true)
}

/**
 * Asks the owner's rules about what is to be signed.
 *
 * @param isHeld whether money is held back for this very request, asked before and not decided otherwise
 */
export function createRuling({ rules, vault }: VaultParts, isHeld: (x: VaultCall) => boolean): HostPlugin {
  /** The same request again must not be refused for the room in the day that it takes up itself. */
  const isCounted = (x: VaultCall): boolean => {
    const { repeat, action, frozenHash } = x.plan!
    return (
      isHeld(x) || (repeat === 'same' && vault.budget.isCounted(signatureId(x.caller.id, action, frozenHash)))
    )
  }
  return {
    name: 'rules',
    slots: { authorize: { reads: ['request'], writes: ['verdict'] } },
    route: () => ({
      authorize(x) {
        const { judged, reasons } = x.plan!
        if (judged === undefined) return
        if (x.who.kind !== 'agent')
          throw new VaultError('SCOPE_DENIED', 'Signing is for agents: register one and use its token.')
        const judgement = ruleOn(x.who.agent, x, rules, isCounted(x))!
        x.limits = judgement.limits
        for (const reason of reasons) x.requireApproval(reason)
        if (judgement.outcome === 'auto') return
        for (const reason of judgement.reasons) x.requireApproval(reason)
        if (judgement.reasons.length === 0) x.requireApproval('A rule asks for it.')
      },
    }),
  }
}
