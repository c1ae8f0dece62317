import { Api } from 'grammy'
import type { VaultPorts } from '../../../core/plugin/vault.ts'
import type { ApprovalText } from './approvalText.ts'
import { failureOf } from './failure.ts'

/** Maximum size of a response, in bytes. Responses of the Bot API are small, and 100 updates with long texts fit. */
const MAX_BYTES = 4_000_000

export interface ChatOptions {
  readonly token: string
  readonly chatId: number
  readonly apiRoot: string
  readonly pollSeconds: number
  readonly timeoutMs: number
}

/** One button below a message. */
export interface Button {
  readonly text: string
  readonly data: string
}

/** A message or button press: its content, its chat and its user. */
export interface Incoming {
  readonly chatId: number | undefined
  readonly userId: number
  /** The written text, or the data of the button. */
  readonly text: string
  /** Set for a button press. */
  readonly press?: { readonly queryId: string; readonly messageId: number | undefined }
}

/** The part of the Bot API that this channel uses. Every method throws grammY's errors, see `failureOf`. */
export interface Chat {
  /** The chat that gets the approvals. It is the configured chat, or the one to which its group was upgraded. */
  readonly id: number
  /** Uses another chat id from now on, because the group was upgraded. */
  moveTo(chatId: number): void
  /** Sends a message and returns its id. */
  send(text: ApprovalText, buttons: readonly Button[]): Promise<number>
  edit(messageId: number, text: ApprovalText, buttons: readonly Button[]): Promise<void>
  say(text: string): Promise<void>
  /** Shows the outcome to the user who pressed a button. */
  respond(queryId: string, text: string): Promise<void>
  /** Polls for messages and presses, for up to `pollSeconds`. The next call confirms that they were received. */
  receive(): Promise<readonly Incoming[]>
}

/**
 * @param onMoved called after the group was upgraded to another chat
 * @param stop ends the polling
 * @param end ends every call in flight
 */
export function createChat(
  options: ChatOptions,
  egress: VaultPorts['egress'],
  onMoved: () => void,
  stop: AbortSignal,
  end: AbortSignal,
): Chat {
  const { token, apiRoot, pollSeconds, timeoutMs } = options
  const apiWith = (ms: number) =>
    new Api(token, { apiRoot, fetch: egressFetch(egress, ms) as never, timeoutSeconds: ms / 1_000 + 5 })
  const api = apiWith(timeoutMs)
  const polling = apiWith(timeoutMs + pollSeconds * 1_000)
  // grammY declares a signal class of its own, but accepts any signal.
  const given = end as never
  let offset = 0
  let { chatId } = options

  function moveTo(next: number): void {
    if (next === chatId) return
    chatId = next
    onMoved()
  }

  /** Calls the Bot API for the chat. If the response states that the group was upgraded, it calls again for the new chat. */
  async function inChat<T>(work: (chatId: number) => Promise<T>): Promise<T> {
    try {
      return await work(chatId)
    } catch (error) {
      const { movedTo } = failureOf(error)
      if (movedTo === undefined || movedTo === chatId) throw error
      moveTo(movedTo)
      return work(movedTo)
    }
  }

  const keyboard = (buttons: readonly Button[]) => ({
    link_preview_options: { is_disabled: true },
    reply_markup: {
      inline_keyboard:
        buttons.length === 0 ? [] : [buttons.map(({ text, data }) => ({ text, callback_data: data }))],
    },
  })

  return {
    get id() {
      return chatId
    },
    moveTo(next) {
      chatId = next
    },
    async send({ text, entities }, buttons) {
      const more = { entities, ...keyboard(buttons) }
      const sent = await inChat((id) => api.sendMessage(id, text, more, given))
      return sent.message_id
    },
    async edit(messageId, { text, entities }, buttons) {
      const more = { entities, ...keyboard(buttons) }
      await inChat((id) => api.editMessageText(id, messageId, text, more, given))
    },
    async say(text) {
      await inChat((id) => api.sendMessage(id, text, {}, given))
    },
    async respond(queryId, text) {
      await api.answerCallbackQuery(queryId, { text: text.slice(0, 200), show_alert: true }, given)
    },
    async receive() {
      const updates = await polling.getUpdates(
        { offset, timeout: pollSeconds, allowed_updates: ['message', 'callback_query'] },
        stop as never,
      )
      for (const { update_id } of updates) offset = Math.max(offset, update_id + 1)
      return updates.flatMap(({ message, callback_query: query }): Incoming[] => {
        if (query !== undefined) {
          const { id, from, data, message: shown } = query
          const press = { queryId: id, messageId: shown?.message_id }
          return [{ chatId: shown?.chat.id, userId: from.id, text: data ?? '', press }]
        }
        if (message?.migrate_to_chat_id !== undefined && message.chat.id === chatId)
          moveTo(message.migrate_to_chat_id)
        if (message?.from === undefined) return []
        return [{ chatId: message.chat.id, userId: message.from.id, text: message.text ?? '' }]
      })
    },
  }
}

/** The part of `fetch` that grammY uses. */
type Fetch = (
  url: string,
  init: { method?: string; headers?: Record<string, string>; body?: unknown; signal?: AbortSignal },
) => Promise<{ json(): Promise<unknown> }>

/**
 * A `fetch` for grammY over the vault's network access for plugins. It checks addresses, follows no redirects, uses no proxy of
 * the environment, and limits the size and time of responses. By default, grammY would open connections of its own
 * (node-fetch).
 */
const egressFetch =
  (egress: VaultPorts['egress'], timeoutMs: number): Fetch =>
  async (url, { method = 'GET', headers = {}, body, signal }) => {
    // The body must be a string, because this channel uploads nothing.
    if (typeof body !== 'string') throw new Error('Expected a body of JSON.')
    const given = new AbortController()
    const giveUp = () => given.abort()
    // The signal is of grammY's own class.
    signal?.addEventListener('abort', giveUp)
    if (signal?.aborted) giveUp()
    try {
      const response = await egress.request({
        url,
        method,
        headers,
        body,
        timeoutMs,
        maxBytes: MAX_BYTES,
        signal: given.signal,
      })
      return { json: async () => readResponse(response.status, response.body) }
    } finally {
      signal?.removeEventListener('abort', giveUp)
    }
  }

/** Parses a response. The Bot API reports errors in JSON, but a proxy in front of it may not. */
function readResponse(status: number, body: Uint8Array): object {
  const value: unknown = parsed(Buffer.from(body).toString('utf8'))
  const isResponse = typeof value === 'object' && value !== null && 'ok' in value
  return isResponse
    ? value
    : {
        ok: false,
        error_code: status < 400 ? 502 : status,
        description: 'The response is not JSON of the Bot API.',
      }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
