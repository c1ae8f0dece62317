import type { Agent } from '../../agents/agents.ts'
import { type Grant, parseGrantLine, secretReads } from '../../agents/grant.ts'
import { type ApprovalRecord, approveCommand, handsOutSecret } from '../../approvals/approval.ts'
import { VaultError } from '../../errors/error.ts'
import type { OwnerContext } from '../caller.ts'

/*
 * Operations that the owner can do only in a terminal. An intruder with brief access to a page session must get no secrets, and
 * no agent that may read them.
 */

const isPage = ({ caller }: OwnerContext): boolean => caller.via !== 'socket'

/**
 * Refuses an agent that could read secrets without approval. If the agent needs approval, the owner approves in a terminal or
 * a chat.
 * @throws `OWNER_REQUIRED`
 */
export function assertMayAdd(
  context: OwnerContext,
  { name, scopes }: { readonly name: string; readonly scopes: readonly string[] },
): void {
  if (!isPage(context)) return
  const [read] = secretReads(scopes.flatMap(parseGrantLine)).filter(({ asks }) => !asks)
  if (read !== undefined)
    throw refusal(
      `let an agent read ${read.scope} without asking`,
      `agents add ${word(name)} --scopes ${word(scopes.join(','))}`,
    )
}

/**
 * Refuses to give an existing agent access to a further secret, even with approval each time. An intruder who has the agent's
 * token could get one of its requests approved.
 * @throws `OWNER_REQUIRED`
 */
export function assertMayChange(
  context: OwnerContext,
  { name, grants }: Agent,
  scopes: readonly string[],
): void {
  if (!isPage(context)) return
  const isHeld = ({ scope, asks }: Grant): boolean =>
    secretReads(grants).some((held) => held.scope === scope && (asks || !held.asks))
  const read = secretReads(scopes.flatMap(parseGrantLine)).find((grant) => !isHeld(grant))
  if (read !== undefined)
    throw refusal(
      `let an agent read ${read.scope}`,
      `agents change ${word(name)} --scopes ${word(scopes.join(','))}`,
    )
}

/**
 * Refuses to show an agent's token or pairing, which gives control of the agent and of everything that the agent may do.
 *
 * @param command the terminal command that does the same, after `tollgate vault`
 * @throws `OWNER_REQUIRED`
 */
export function assertMayHandOver(context: OwnerContext, agent: Agent, command: readonly string[]): void {
  if (!isPage(context)) return
  const [read] = secretReads(agent.grants)
  if (read !== undefined)
    throw refusal(`hand over an agent that may read ${read.scope}`, command.map(word).join(' '))
}

/** @throws `OWNER_REQUIRED` */
export function assertMayApprove(context: OwnerContext, record: ApprovalRecord | undefined): void {
  if (isPage(context) && record !== undefined && handsOutSecret(record))
    throw new VaultError(
      'OWNER_REQUIRED',
      `Expected the owner's terminal or chat to hand out ${record.scope}, got a session of the page, which can only deny it. On this machine: ${approveCommand(record)}`,
    )
}

const refusal = (act: string, command: string): VaultError =>
  new VaultError(
    'OWNER_REQUIRED',
    `Expected the owner's terminal to ${act}, got a session of the page. On this machine: tollgate vault ${command}`,
  )

/** Quotes one word of a shell command. */
const word = (text: string): string =>
  /^[\w.,:@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
