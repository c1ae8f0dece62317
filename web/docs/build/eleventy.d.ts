/** The part of Eleventy that the build uses. Eleventy has no types of its own. */
declare module '@11ty/eleventy' {
  export default class Eleventy {
    constructor(
      input: string,
      output: string,
      options: { readonly quietMode: boolean; readonly configPath: string },
    )
    toJSON(): Promise<readonly { readonly url: string; readonly content: string }[]>
  }
}
