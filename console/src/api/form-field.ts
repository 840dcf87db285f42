/** A field of a form, as the OpenAPI document describes it. */
export interface FormField {
  name: string;
  kind: 'text' | 'long_text' | 'secret' | 'number' | 'boolean' | 'choice' | 'texts' | 'map' | 'group' | 'rows';
  isRequired?: true;
  /** A text in which only `code` has a form of its own. */
  help?: string;
  example?: string;
  default?: string | number | boolean;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  /** Of a `choice`. */
  options?: readonly string[];
  /** Of a `group`, and of each of the `rows`. */
  fields?: readonly FormField[];
}
