import type { OptionsSchema } from '../../../core/plugin/options.ts'

/** The options of the channel. The README explains how to create a bot and find a chat's id. */
export const options = {
  type: 'object',
  additionalProperties: false,
  description: 'Asks you for approvals in a Telegram chat, and accepts your decisions from this chat.',
  examples: [{ botTokenFile: './telegram-token', chatId: 123_456_789 }],
  required: ['chatId'],
  properties: {
    botToken: {
      type: 'string',
      pattern: '^[0-9]{3,20}:[A-Za-z0-9_-]{20,100}$',
      writeOnly: true,
      examples: [`\${TELEGRAM_BOT_TOKEN}`],
      description:
        'The token of your Telegram bot. Read the token from the environment. Set either `botToken` or `botTokenFile`.',
    },
    botTokenFile: {
      type: 'string',
      format: 'path',
      minLength: 1,
      description:
        'File with the token of your Telegram bot. The file must have the mode 0600. A relative path starts at the folder of the configuration file.',
    },
    chatId: {
      type: 'integer',
      minimum: -9_007_199_254_740_991,
      maximum: 9_007_199_254_740_991,
      description:
        'Id of the only chat from which the vault accepts approvals. A positive id is your chat with the bot, and a negative id is a group. To find the id, write to the bot and look in the log of the vault.',
    },
    userIds: {
      type: 'array',
      default: [],
      maxItems: 100,
      items: { type: 'integer', minimum: 1, description: "A user's id." },
      description:
        'Telegram ids of the users who may approve and deny requests. Required if `chatId` is a group.',
    },
    lockNotices: {
      type: 'boolean',
      default: true,
      description: 'Whether the bot sends a message to the chat when the vault locks.',
    },
    apiRoot: {
      type: 'string',
      format: 'url',
      pattern: '^https?://[^/?#@]+(/[^?#]*[^/?#])?$',
      default: 'https://api.telegram.org',
      description:
        'Address of the Bot API, without a slash at its end. If you run your own Bot API server at a private address, add its address range to `pluginEgress`.',
    },
    pollSeconds: {
      type: 'integer',
      minimum: 1,
      maximum: 50,
      default: 25,
      description: 'How long one request to the Bot API waits for new messages, in seconds.',
    },
    timeoutMs: {
      type: 'integer',
      minimum: 100,
      maximum: 60_000,
      default: 10_000,
      description: 'Time limit of all other requests to the Bot API, in milliseconds.',
    },
    retryMinMs: {
      type: 'integer',
      minimum: 1,
      maximum: 60_000,
      default: 1_000,
      description:
        'How long the plugin waits after the first failed request to the Bot API, in milliseconds. Each further failure doubles the wait.',
    },
    retryMaxMs: {
      type: 'integer',
      minimum: 1,
      maximum: 3_600_000,
      default: 60_000,
      description:
        'Longest time that the plugin waits after failed requests to the Bot API, in milliseconds. If the Bot API itself requests a wait, the plugin waits for the requested time.',
    },
  },
} as const satisfies OptionsSchema
