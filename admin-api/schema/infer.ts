/**
 * The type of a value that passed the check of JSON Schema `S` (declared `as const`): the subset of draft-07 that the
 * bodies here are written in. A property is optional in the type when it is not in `required`.
 */
export type Infer<S> = S extends { readonly enum: readonly (infer Value)[] }
  ? Value
  : S extends { readonly type: readonly (infer Kind)[] }
    ? InferKind<S, Kind>
    : S extends { readonly type: infer Kind }
      ? InferKind<S, Kind>
      : unknown

type InferKind<S, Kind> = Kind extends 'string'
  ? string
  : Kind extends 'integer' | 'number'
    ? number
    : Kind extends 'boolean'
      ? boolean
      : Kind extends 'null'
        ? null
        : Kind extends 'array'
          ? readonly InferItem<S>[]
          : Kind extends 'object'
            ? InferObject<S>
            : never

type InferItem<S> = S extends { readonly items: infer Item } ? Infer<Item> : unknown

type InferObject<S> = S extends { readonly properties: infer P }
  ? Flatten<
      { readonly [K in keyof P as K extends Required<S> ? K : never]: Infer<P[K]> } & {
        readonly [K in keyof P as K extends Required<S> ? never : K]?: Infer<P[K]>
      }
    >
  : S extends { readonly additionalProperties: infer Value }
    ? { readonly [key: string]: Infer<Value> }
    : { readonly [key: string]: unknown }

type Required<S> = S extends { readonly required: readonly (infer Name)[] } ? Name : never
type Flatten<T> = { [K in keyof T]: T[K] } & {}
