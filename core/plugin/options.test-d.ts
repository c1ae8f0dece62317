// Checked by tsc, never run: each line fails to compile when the inferred type changes.
import type { NetworkId } from '../domain/network.ts'
import type { Infer, OptionsSchema } from './options.ts'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const same = <T extends true>(): T | undefined => undefined

const options = {
  type: 'object',
  additionalProperties: false,
  required: ['points'],
  properties: {
    points: { type: 'integer', minimum: 1, description: 'Required.' },
    windowMs: { type: 'integer', default: 60_000, description: 'Has a default.' },
    label: { type: 'string', description: 'Neither.' },
    keyBy: { enum: ['ip', 'link'], default: 'ip', description: 'One of these.' },
    strict: { type: 'boolean', default: false, description: 'A switch.' },
    origins: {
      type: 'array',
      items: { type: 'string', description: 'One.' },
      default: [],
      description: 'Many.',
    },
    network: { type: 'string', format: 'caip2', description: 'A chain.' },
    nested: {
      type: 'object',
      additionalProperties: false,
      default: {},
      description: 'A section.',
      properties: { ratio: { type: 'number', description: 'Deep.' } },
    },
    headers: {
      type: 'object',
      additionalProperties: { type: 'string', description: 'A value.' },
      description: 'Free keys.',
    },
    labels: { type: 'object', additionalProperties: true, description: 'Free keys and values.' },
  },
} as const satisfies OptionsSchema

same<
  Same<
    Infer<typeof options>,
    {
      readonly points: number
      readonly windowMs: number
      readonly keyBy: 'ip' | 'link'
      readonly strict: boolean
      readonly origins: readonly string[]
      readonly nested: { readonly ratio?: number }
      readonly label?: string
      readonly network?: NetworkId
      readonly headers?: { readonly [key: string]: string }
      readonly labels?: { readonly [key: string]: unknown }
    }
  >
>()

// An empty schema gives an empty object, not `never`.
const none = { type: 'object', additionalProperties: false, properties: {} } as const satisfies OptionsSchema
same<Same<keyof Infer<typeof none>, never>>()

export const withoutDescription = {
  type: 'object',
  additionalProperties: false,
  // @ts-expect-error every option needs a description
  properties: { points: { type: 'integer' } },
} as const satisfies OptionsSchema

export const withUnknownKeys = {
  type: 'object',
  // @ts-expect-error unknown keys are always refused
  additionalProperties: true,
  properties: {},
} as const satisfies OptionsSchema

export const withWrongDefault = {
  type: 'object',
  additionalProperties: false,
  // @ts-expect-error the default of a number is a number
  properties: { points: { type: 'integer', default: '1', description: 'A number.' } },
} as const satisfies OptionsSchema
