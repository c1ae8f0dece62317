import type { OptionsSchema } from '../../../core/plugin/options.ts'

/** The options of the channel; its README says how to make a bot and find a chat's id. */
export const options = {
  type: 'object',
  additionalProperties: false,
  description: 'Asks the owner in a Telegram chat, and takes the answer there.',
  required: ['chatId'],
  properties: {
    botToken: {
      type: 'string',
      pattern: '^[0-9]{3,20}:[A-Za-z0-9_-]{20,100}$',
      writeOnly: true,
      examples: [`\${TELEGRAM_BOT_TOKEN}`],
      description: "The bot's token, from the environment. Either this or `botTokenFile`.",
    },
    botTokenFile: {
      type: 'string',
      format: 'path',
      minLength: 1,
      description: "File with the bot's token, mode 0600. Relative to the configuration file.",
    },
    chatId: {
      type: 'integer',
      minimum: -9_007_199_254_740_991,
      maximum: 9_007_199_254_740_991,
      description:
        'Id of the one chat that is asked and may answer: yours with the bot, or, below zero, a group. The log names the id of whoever else writes to the bot.',
    },
    userIds: {
      type: 'array',
      default: [],
      maxItems: 100,
      items: { type: 'integer', minimum: 1, description: "A user's id." },
      description:
        'The users who may answer. Needed for a group; in a chat with one user, that user may without it.',
    },
    lockNotices: {
      type: 'boolean',
      default: true,
      description: 'Say in the chat when the vault has locked itself or was locked, once each time.',
    },
    apiRoot: {
      type: 'string',
      format: 'url',
      pattern: '^https?://[^/?#@]+(/[^?#]*[^/?#])?$',
      default: 'https://api.telegram.org',
      description:
        'Address of the Bot API, without a slash at its end. One of your own needs its range in `pluginEgress`.',
    },
    pollSeconds: {
      type: 'integer',
      minimum: 1,
      maximum: 50,
      default: 25,
      description: 'How long one question for answers stays open at the Bot API, in seconds.',
    },
    timeoutMs: {
      type: 'integer',
      minimum: 100,
      maximum: 60_000,
      default: 10_000,
      description: 'Time that any other request to the Bot API may take, in milliseconds.',
    },
    retryMinMs: {
      type: 'integer',
      minimum: 1,
      maximum: 60_000,
      default: 1_000,
      description: 'First wait after the Bot API failed, in milliseconds; doubled each time.',
    },
    retryMaxMs: {
      type: 'integer',
      minimum: 1,
      maximum: 3_600_000,
      default: 60_000,
      description: 'Longest such wait, in milliseconds. What the Bot API asks for itself is kept to.',
    },
  },
} as const satisfies OptionsSchema
