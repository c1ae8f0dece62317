import { type ApprovalQueue, type ApprovalRequest, shortHash } from '../../../core/plugin/vault.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import type { Log } from '../../../core/ports/log.ts'
import { approvalText } from './approvalText.ts'
import type { Chat, Incoming } from './chat.ts'
import { failureOf } from './failure.ts'
import { type Messages, type Press, readButton } from './messages.ts'

/** Repeated refusals of the same user are logged once in this time, in ms. */
const REFUSAL_LOG_MS = 60_000
const MAX_REMEMBERED = 1_000

export interface ResponsesDeps {
  readonly approvalQueue: ApprovalQueue
  readonly chat: Chat
  readonly messages: Messages
  readonly chatId: number
  /** The users who may decide. Empty for a chat with one user, who may decide. */
  readonly userIds: readonly number[]
  readonly clock: Clock
  readonly log: Log
}

/**
 * Handles messages and button presses in the chat. A press by another user or in another chat is refused and logged. The
 * handler never throws.
 */
export function createResponses(parts: ResponsesDeps): (incoming: Incoming) => Promise<void> {
  const { approvalQueue, chat, messages, chatId, userIds, clock, log } = parts
  const refused = new Map<string, number>()
  const mayAnswer = ({ chatId: where, userId }: Incoming): boolean =>
    (where === chatId || where === chat.id) &&
    (userIds.length === 0 ? userId === chatId : userIds.includes(userId))

  function logRefusal({ chatId: where, userId }: Incoming): void {
    const key = `${where} ${userId}`
    const now = clock.now()
    if (now - (refused.get(key) ?? Number.NEGATIVE_INFINITY) < REFUSAL_LOG_MS) return
    if (refused.size >= MAX_REMEMBERED) refused.clear()
    refused.set(key, now)
    log.warn({ chatId: where, userId }, 'refused: only the configured chat and users may answer')
  }

  async function decide({ verb, id, decisionHash }: Press, userId: number): Promise<string> {
    const approval = approvalQueue.get(id)
    if (approvalQueue.isLocked()) return locked
    if (approval === undefined) return 'The vault no longer has this approval.'
    if (approval.decisionHash !== decisionHash)
      return `This button is for decision ${shortHash(decisionHash)}, but the approval is now ${shortHash(approval.decisionHash)}. Nothing was decided.`
    if (verb === 'approve' && approval.state === 'pending' && !approvalText(approval).isWhole)
      return 'This request was not fully decoded, or not shown in full in this chat. Approve it on the page or in a terminal.'
    const by = `telegram user ${userId}`
    try {
      if (verb === 'approve') await approvalQueue.approve(id, decisionHash, by)
      else await approvalQueue.deny(id, by)
      log.info({ approval: id, userId, verb }, 'decided in the chat')
      return verb === 'approve' ? 'Approved.' : 'Denied.'
    } catch (error) {
      const { code } = error as { code?: unknown }
      if (code === 'VAULT_LOCKED') return locked
      if (code === 'APPROVAL_RESOLVED' || code === 'APPROVAL_EXPIRED')
        return tooLate(approvalQueue.get(id) ?? approval)
      log.error({ code, approval: id }, 'a decision in the chat failed')
      return 'The vault could not perform this action. Check the log of the vault.'
    }
  }

  return async (incoming) => {
    const { press, text, userId } = incoming
    try {
      if (!mayAnswer(incoming)) {
        logRefusal(incoming)
        if (press !== undefined) await chat.respond(press.queryId, 'You may not decide this request.')
        return
      }
      if (press === undefined) {
        if (/^\/(?:start|status)(?:@\w+)?$/.test(text.trim())) await chat.say(statusOf(approvalQueue))
        return
      }
      const read = readButton(text)
      const words = read === undefined ? 'The vault has no such button.' : await decide(read, userId)
      const approval = read && approvalQueue.get(read.id)
      if (approval !== undefined && press.messageId !== undefined && incoming.chatId === chat.id)
        messages.refresh(approval, press.messageId)
      await chat.respond(press.queryId, words)
    } catch (error) {
      // The decision is valid, and only the reply about it failed.
      const { code, message } = failureOf(error)
      log.debug({ code, reason: message }, 'a reply to the chat did not arrive')
    }
  }
}

const locked = 'The vault is locked. Unlock it on its machine, then press again.'

function tooLate({ state, decidedBy }: ApprovalRequest): string {
  if (state === 'pending') return 'Another decision on this request is being saved right now.'
  if (state === 'expired') return 'This approval has expired.'
  const what = state === 'consumed' || state === 'failed' ? 'approved' : state
  return decidedBy === null ? `Already ${what}.` : `Already ${what} by ${decidedBy}.`
}

function statusOf(approvalQueue: ApprovalQueue): string {
  if (approvalQueue.isLocked()) return 'The vault is locked.'
  const { length } = approvalQueue.open()
  return `The vault is unlocked. ${length === 0 ? 'No approvals are' : length === 1 ? 'One approval is' : `${length} approvals are`} waiting.`
}
