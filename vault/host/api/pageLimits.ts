import type { Agent } from '../../agents/agent.ts'
import { type Grant, parseGrantLine, secretReads } from '../../agents/grant.ts'
import { type ApprovalRecord, approveCommand, handsOutSecret } from '../../approvals/approval.ts'
import { VaultError } from '../../errors/error.ts'
import type { OwnerContext } from '../caller.ts'

/*
 * What the owner does in a terminal only. A stranger who has a page's session for a moment must not leave with the secrets,
 * nor with an agent that gets them.
 */

const isPage = ({ caller }: OwnerContext): boolean => caller.via !== 'socket'

/** A new agent may ask for secrets: the owner is then asked in a terminal or a chat. @throws `OWNER_REQUIRED` */
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
 * An agent that is known gets no secret that it does not have, with or without a question: the owner might answer one of
 * its questions for it, while a stranger has its token. @throws `OWNER_REQUIRED`
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
 * Its token, or a pairing, is the agent itself, with what it may read and what was approved for it.
 *
 * @param command what does the same in a terminal, after `tollgate vault`
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

/** One word of a command in a shell. */
const word = (text: string): string =>
  /^[\w.,:@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
