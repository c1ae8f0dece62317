import type { VaultOperation } from '../../../core/plugin/vault.ts'
import type { Agent } from '../../agents/agents.ts'
import { type GrantVerb, grantFor, isScope } from '../../agents/grant.ts'
import { VaultError } from '../../errors/error.ts'
import type { Vault } from '../../ports/vault.ts'
import { type AssertAdmitted, assertKnown } from '../caller.ts'
import type { VaultDeps } from '../deps.ts'
import type { Judgement, StoredRules } from '../ownerRules.ts'
import { planCall } from '../plans/call.ts'
import { planPayment } from '../plans/payment.ts'
import { planPreview } from '../plans/preview.ts'
import { planMessage, planTransaction, planTypedData } from '../plans/signing.ts'
import { planAddress, planDelete, planRead, planWrite } from '../plans/values.ts'
import { type HostPlugin, type Plan, signatureId, type VaultCall } from '../vaultCall.ts'

type Planner = (x: VaultCall, parts: VaultDeps) => Plan | Promise<Plan>

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

/**
 * Admits known callers while the vault is unlocked, within the owner's rate limit. The transport has authenticated the caller.
 * A revoked agent is refused here.
 */
export function createIdentify(vault: Vault, assertAdmitted: AssertAdmitted): HostPlugin {
  return {
    name: 'identify',
    slots: { identify: { writes: ['caller'] } },
    route: () => ({
      identify({ who }) {
        assertKnown(who)
        vault.assertUnlocked()
        assertAdmitted(who)
      },
    }),
  }
}

/** Turns the request into a plan of what it would do. It decodes the bytes and checks the agent's claim about them. */
export function createPlanning(parts: VaultDeps): HostPlugin {
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
 * Refuses an agent without the grant before its request is decoded, looked up or sent to a node. The scope or chain that the
 * request names is enough for this check.
 */
export function createGranting(parts: VaultDeps): HostPlugin {
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
type Wants = (input: Readonly<Record<string, unknown>>, parts: VaultDeps) => readonly Wanted[]

/** No grant is needed if the request names an unknown chain. Planning reports that before it decodes the request. */
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
/** An x402 offer lists several chains. The agent needs a grant for at least one of them. Planning checks the chosen chain. */
const onAnyChain: Wants = ({ network }, { assets, enabled }) => {
  const named = typeof network === 'string' ? assets.chains.ofNetwork(network) : undefined
  const chains = typeof network !== 'string' ? enabled : named === undefined ? [] : [named.name]
  return chains.map((name) => ({ verb: 'sign', scope: `wallet.${name}` }))
}

/** The grants of each operation. Any one of them is enough for the request to be decoded. */
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

/** Enforces an agent's grants. The owner needs none. */
export const grants: HostPlugin = {
  name: 'plan-grants',
  slots: { authorize: { reads: ['request'] } },
  route: () => ({
    authorize(x) {
      const { scope, check } = x.plan!
      if (x.who.kind === 'agent') {
        const grant = assertGranted(x.who.agent, x.plan!)
        if (grant.asks) x.requireApproval(`The grant of ${scope} requires asking the owner each time.`)
      }
      check?.()
    },
  }),
}

/** What the owner's rules decide about a request to sign. @throws the refusal by a rule */
function ruleOn(agent: Agent, x: VaultCall, rules: StoredRules, isCounted: boolean): Judgement | undefined {
  const { judged } = x.plan!
  if (judged === undefined) return undefined
  const judgement = rules.judge({ agent, ...judged, isCounted })
  if (judgement.outcome !== 'refuse') return judgement
  throw new VaultError(judgement.code ?? 'APPROVAL_DENIED', judgement.reasons.join(' '), {
    ...(judgement.action !== undefined && { action: judgement.action }),
  })
}

/**
 * Checks a request again after it waited for the owner, because its agent, grants or rules may have been removed meanwhile. The
 * money is already reserved.
 *
 * @param agent the current agent. Undefined if it was removed
 * @throws the refusal that a new request would get
 */
export function assertStillAllowed(agent: Agent | undefined, x: VaultCall, rules: StoredRules): void {
  if (agent === undefined || agent.revokedAt !== null) throw new VaultError('UNAUTHORIZED')
  assertGranted(agent, x.plan!)
  ruleOn(agent, x, rules, true)
}

/**
 * Applies the owner's rules to what is to be signed.
 *
 * @param isHeld whether an earlier approval that was not refused has reserved money for this exact request
 */
export function createRuling({ rules, vault }: VaultDeps, isHeld: (x: VaultCall) => boolean): HostPlugin {
  /**
   * Whether the daily budget already includes this request. A repeated request must not be refused because of its own amount.
   */
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
          throw new VaultError(
            'SCOPE_DENIED',
            'Expected an agent: only agents can sign. Register an agent and use its token.',
          )
        const judgement = ruleOn(x.who.agent, x, rules, isCounted(x))!
        x.limits = judgement.limits
        for (const reason of reasons) x.requireApproval(reason)
        if (judgement.outcome === 'auto') return
        for (const reason of judgement.reasons) x.requireApproval(reason)
        if (judgement.reasons.length === 0) x.requireApproval('A rule requires approval.')
      },
    }),
  }
}
