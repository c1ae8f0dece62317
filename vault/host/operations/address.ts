import { addressRequest } from '../../requests/agentRequests.ts'
import { accountOn } from '../chainOf.ts'
import { hashOf } from '../hashOf.ts'
import type { VaultParts } from '../parts.ts'
import { type Plan, withoutMoney } from '../plan.ts'
import type { VaultCall } from '../vaultCall.ts'

/** `GET /address/:chain` → `{address, chain}`. */
export function planAddress(x: VaultCall, parts: VaultParts): Plan {
  const { facts, key } = accountOn(parts, addressRequest.check(x.input).chain)
  const hash = hashOf('address', facts.name)
  return {
    ...withoutMoney,
    action: 'ADDRESS',
    scope: `wallet.${facts.name}`,
    verb: 'address',
    chain: facts.name,
    plainWords: [`Tell the address of the wallet on ${facts.title}.`],
    requestHash: hash,
    frozenHash: hash,
    repeat: 'new',
    act: async () => ({ status: 200, body: { address: key.address, chain: facts.name } }),
  }
}
