import type { NetworkId } from '../domain/network.ts'

/** Fields that every option has, for the editor, the docs and error messages. */
interface Described {
  /** What the option does, with its unit. A reader who does not know the code must be able to act on it. */
  readonly description: string
  readonly title?: string
  readonly examples?: readonly unknown[]
  readonly deprecated?: true
  /** True for a secret, which is masked wherever the configuration is shown. This is a standard JSON Schema annotation. */
  readonly writeOnly?: true
}

export interface StringOption extends Described {
  readonly type: 'string'
  readonly default?: string
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly format?: OptionFormat
}

/** Formats that the loader checks. The loader also resolves a `path` against the folder of the configuration file. */
export type OptionFormat = 'url' | 'path' | 'cidr' | 'ip-port' | 'caip2' | 'decimal'

export interface NumberOption extends Described {
  readonly type: 'integer' | 'number'
  readonly default?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly exclusiveMaximum?: number
  readonly multipleOf?: number
}

export interface BooleanOption extends Described {
  readonly type: 'boolean'
  readonly default?: boolean
}

export interface EnumOption extends Described {
  readonly enum: readonly (string | number | boolean)[]
  readonly type?: 'string' | 'integer' | 'number' | 'boolean'
  readonly default?: string | number | boolean
}

export interface ArrayOption extends Described {
  readonly type: 'array'
  readonly items: Option
  readonly default?: readonly unknown[]
  readonly minItems?: number
  readonly maxItems?: number
  readonly uniqueItems?: boolean
}

export interface ObjectOption extends Described, ObjectShape {
  /** With `{}` the section is always present, with the defaults of its members. */
  readonly default?: object
}

/** An object with free keys, such as a table of headers. Its values are all of one kind, or of any kind if the schema is `true`. */
export interface MapOption extends Described {
  readonly type: 'object'
  readonly additionalProperties: Option | true
  readonly propertyNames?: { readonly pattern?: string; readonly format?: OptionFormat }
  readonly minProperties?: number
  readonly maxProperties?: number
  readonly default?: object
}

export type Option =
  | StringOption
  | NumberOption
  | BooleanOption
  | EnumOption
  | ArrayOption
  | ObjectOption
  | MapOption

interface ObjectShape {
  readonly type: 'object'
  /** Always false, so that an unknown key is refused and a misspelled option is not silently ignored. */
  readonly additionalProperties: false
  readonly properties: { readonly [name: string]: Option }
  readonly required?: readonly string[]
}

/**
 * The options of a plugin, as a subset of JSON Schema (draft-07). The schema defines the type ({@link Infer}), the check, the
 * defaults, the editor's help and the reference in the docs.
 *
 * @example
 * const options = {
 *   type: 'object',
 *   additionalProperties: false,
 *   required: ['points'],
 *   properties: {
 *     points: { type: 'integer', minimum: 1, description: 'Requests one key may make in a window.' },
 *     windowMs: { type: 'integer', default: 60_000, description: 'Length of a window, in milliseconds.' },
 *   },
 * } as const satisfies OptionsSchema
 * type Options = Infer<typeof options> // { readonly points: number; readonly windowMs: number }
 */
export interface OptionsSchema extends ObjectShape {
  readonly title?: string
  readonly description?: string
  /** Example configurations. The reference shows the first one, and lists the options of that example first. */
  readonly examples?: readonly unknown[]
}

/**
 * The type of options that have passed the check of schema `S`. A property is optional in the type if it has no default and is not
 * in `required`.
 */
export type Infer<S> = S extends true
  ? unknown
  : S extends { readonly enum: readonly (infer Value)[] }
    ? Value
    : S extends { readonly type: 'string'; readonly format: 'caip2' }
      ? NetworkId
      : S extends { readonly type: 'string' }
        ? string
        : S extends { readonly type: 'integer' | 'number' }
          ? number
          : S extends { readonly type: 'boolean' }
            ? boolean
            : S extends { readonly type: 'array'; readonly items: infer Item }
              ? readonly Infer<Item>[]
              : S extends { readonly type: 'object'; readonly properties: infer P }
                ? InferProperties<P, Present<S, P>>
                : S extends { readonly type: 'object'; readonly additionalProperties: infer Value }
                  ? { readonly [key in KeyOf<S>]: Infer<Value> }
                  : never

type KeyOf<S> = S extends { readonly propertyNames: { readonly format: 'caip2' } } ? NetworkId : string

/** The names of the properties that exist after the check, because they are required or have a default. */
type Present<S, P> =
  | (S extends { readonly required: readonly (infer Name)[] } ? Name : never)
  | { [K in keyof P]: P[K] extends { readonly default: unknown } ? K : never }[keyof P]

type InferProperties<P, Names> = Flatten<
  { readonly [K in keyof P as K extends Names ? K : never]: Infer<P[K]> } & {
    readonly [K in keyof P as K extends Names ? never : K]?: Infer<P[K]>
  }
>

type Flatten<T> = { [K in keyof T]: T[K] } & {}
