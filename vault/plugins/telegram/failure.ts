import { GrammyError, HttpError } from 'grammy'

/** A failed call of the Bot API, without its URL, which contains the token. */
export interface Failure {
  /** The Bot API's code (an HTTP status), or the code of a connection failure, such as `EGRESS_TIMEOUT`. */
  readonly code: number | string
  readonly message: string
  /** How long the Bot API asks to wait, in ms. */
  readonly retryAfterMs: number | undefined
  /** True if the same call can never succeed, because its target is gone or not permitted. */
  readonly isFinal: boolean
  /** The chat to which the group was upgraded. The call has to be sent to this chat. */
  readonly movedTo?: number | undefined
}

/** The approval could not be shown and is still open. It is sent again, even after a final failure. */
export class StillOpen extends Error {
  readonly failure: Failure
  constructor(failure: Failure) {
    super(failure.message)
    this.failure = { ...failure, isFinal: false }
  }
}

/** The remedy of a failure, for the owner. */
export function adviceOf({ code, message }: Failure): string {
  if (code === 401 || code === 404) return 'The Bot API does not know this bot. Check its token.'
  if (/TOPIC_CLOSED|thread not found/i.test(message))
    return 'The topic General of the group is closed. Open it, or let the bot manage topics.'
  if (/blocked/i.test(message)) return 'The user has blocked the bot. Unblock it.'
  if (/deactivated/i.test(message))
    return 'The Telegram account of the user no longer exists. Correct userIds and chatId.'
  if (/kicked|not a member|chat not found/i.test(message))
    return 'The bot is not in the chat, or the chat is gone. Add the bot, or correct chatId.'
  if (code === 400 || code === 403)
    return 'The Bot API refused the message. Allow the bot to send messages in the chat.'
  return `The Bot API cannot be reached (${code}).`
}

const anyToken = /[0-9]{3,20}:[A-Za-z0-9_-]{20,100}/g

/** @param error the thrown value. The result has only its harmless parts */
export function failureOf(error: unknown): Failure {
  if (error instanceof StillOpen) return error.failure
  if (error instanceof GrammyError) {
    const { error_code: code, description, parameters } = error
    return {
      code,
      message: withoutToken(description),
      retryAfterMs: parameters.retry_after === undefined ? undefined : parameters.retry_after * 1_000,
      isFinal: code === 400 || code === 403,
      movedTo: parameters.migrate_to_chat_id,
    }
  }
  const cause = error instanceof HttpError ? error.error : error
  const { code } = (cause ?? {}) as { code?: unknown }
  return {
    code: typeof code === 'string' ? code : 'FAILED',
    message: withoutToken(cause instanceof Error ? cause.message : 'The request to the Bot API failed.'),
    retryAfterMs: undefined,
    isFinal: false,
  }
}

/** True when an edit changed nothing because the message is already up to date. */
export const isUnchanged = ({ code, message }: Failure): boolean =>
  code === 400 && message.includes('message is not modified')

const withoutToken = (text: string): string => text.replaceAll(anyToken, '<token>').slice(0, 300)
