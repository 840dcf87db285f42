// Generated (see console/README.md). Do not edit.
import type { FormField } from './form-field.ts';

export const formFields: Readonly<Record<string, readonly FormField[]>> = {
 "createSandbox": [
  {
   "name": "name",
   "kind": "text",
   "help": "Generated when empty",
   "example": "hello",
   "maxLength": 24,
   "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*$"
  },
  {
   "name": "description",
   "kind": "long_text",
   "example": "Runs the tests of the main branch",
   "maxLength": 65536
  },
  {
   "name": "template",
   "kind": "text",
   "help": "An id, the name of a built-in, public or own template, or `<user name>/<name>`",
   "example": "base",
   "maxLength": 128
  },
  {
   "name": "project_id",
   "kind": "text",
   "help": "The user's default project when left out",
   "example": "prj-8d3fkq6w2mzx5v7r4t9ypjhn",
   "maxLength": 64
  },
  {
   "name": "cpu_count",
   "kind": "number",
   "help": "The template's default when left out",
   "example": "2",
   "minimum": 1
  },
  {
   "name": "memory_mb",
   "kind": "number",
   "help": "The template's default when left out",
   "example": "512",
   "minimum": 128
  },
  {
   "name": "storage_gb",
   "kind": "number",
   "help": "Half of the plan's maximum when left out",
   "example": "5",
   "minimum": 1
  },
  {
   "name": "timeout",
   "kind": "number",
   "help": "Seconds",
   "example": "300",
   "default": 300,
   "minimum": 60
  },
  {
   "name": "env_vars",
   "kind": "map"
  },
  {
   "name": "metadata",
   "kind": "map"
  },
  {
   "name": "secure",
   "kind": "boolean",
   "help": "The agent requires the access token",
   "default": true
  },
  {
   "name": "allow_internet_access",
   "kind": "boolean",
   "default": true
  },
  {
   "name": "object_storage",
   "kind": "rows",
   "fields": [
    {
     "name": "uri",
     "kind": "text",
     "isRequired": true,
     "help": "`s3://<bucket>/<path>` or `oss://<bucket>/<path>`",
     "example": "s3://bucket/folder",
     "maxLength": 1024,
     "pattern": "^(s3|oss)://[a-z0-9]"
    },
    {
     "name": "region",
     "kind": "text",
     "help": "A region or an endpoint is required",
     "example": "eu",
     "maxLength": 64,
     "pattern": "^[A-Za-z0-9-]+$"
    },
    {
     "name": "endpoint",
     "kind": "text",
     "help": "URL of an S3-compatible server",
     "example": "https://s3.eu-central-1.amazonaws.com",
     "maxLength": 1024,
     "pattern": "^https?://"
    },
    {
     "name": "mount_point",
     "kind": "text",
     "isRequired": true,
     "help": "Absolute path in the sandbox; a missing folder is created",
     "example": "/mnt/data",
     "maxLength": 1024,
     "pattern": "^/[^\\s\\x00-\\x1f\\x7f-\\x9f]*$"
    },
    {
     "name": "access_key",
     "kind": "text",
     "isRequired": true,
     "example": "AKIAIOSFODNN7EXAMPLE",
     "minLength": 1,
     "maxLength": 1024,
     "pattern": "^[\\x21-\\x7e]+$"
    },
    {
     "name": "secret_key",
     "kind": "secret",
     "isRequired": true,
     "example": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
     "minLength": 1,
     "maxLength": 1024,
     "pattern": "^[\\x21-\\x7e]+$"
    },
    {
     "name": "session_token",
     "kind": "long_text",
     "help": "Makes the mount `short_lived`",
     "example": "FwoGZXIvYXdzEXAMPLE",
     "minLength": 1,
     "maxLength": 8192,
     "pattern": "^[\\x21-\\x7e]+$"
    }
   ],
   "help": "One bucket mount, or a list of them"
  },
  {
   "name": "object_storage_direct_mount",
   "kind": "boolean",
   "help": "The image's own s3fs runs in the sandbox. Not with a session token; ignored for templates that are not custom",
   "default": false
  },
  {
   "name": "s3fs_executable_path",
   "kind": "text",
   "help": "Only with a direct mount; empty: the s3fs in PATH",
   "example": "/usr/bin/s3fs",
   "maxLength": 1024,
   "pattern": "^(\\/[^\\s\\x00-\\x1f\\x7f-\\x9f]+)?$"
  },
  {
   "name": "custom_ports",
   "kind": "rows",
   "fields": [
    {
     "name": "port",
     "kind": "number",
     "isRequired": true,
     "example": "8000",
     "minimum": 1,
     "maximum": 65535
    },
    {
     "name": "name",
     "kind": "text",
     "isRequired": true,
     "example": "hello",
     "minLength": 1,
     "maxLength": 15,
     "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$"
    },
    {
     "name": "protocol",
     "kind": "choice",
     "options": [
      "TCP",
      "UDP",
      "WEBRTC"
     ],
     "default": "TCP"
    },
    {
     "name": "service_port",
     "kind": "number",
     "help": "The port on which the server in the sandbox listens; default: `port`",
     "example": "8000",
     "minimum": 1,
     "maximum": 65535
    },
    {
     "name": "is_protected",
     "kind": "boolean",
     "help": "Require the access token",
     "default": false
    }
   ]
  },
  {
   "name": "locality",
   "kind": "group",
   "fields": [
    {
     "name": "auto_detect",
     "kind": "boolean",
     "help": "Use the caller's region if `region` is left out"
    },
    {
     "name": "region",
     "kind": "text",
     "help": "An id of `GET /v1/platform-regions`",
     "example": "eu",
     "maxLength": 64
    },
    {
     "name": "force",
     "kind": "boolean",
     "help": "Use no other region; ignored with `auto_detect`. By default, the nearest region with capacity is used"
    }
   ]
  },
  {
   "name": "auto_pause",
   "kind": "boolean",
   "help": "Pause the sandbox at its timeout, instead of terminating it",
   "default": false
  },
  {
   "name": "is_async",
   "kind": "boolean",
   "help": "Reply immediately, instead of when the sandbox runs or has failed",
   "default": false
  }
 ],
 "updateSandbox": [
  {
   "name": "timeout",
   "kind": "number",
   "isRequired": true,
   "help": "Seconds",
   "example": "300",
   "minimum": 60
  }
 ],
 "setSandboxTimeout": [
  {
   "name": "timeout",
   "kind": "number",
   "isRequired": true,
   "help": "Seconds",
   "example": "300",
   "minimum": 60
  }
 ],
 "connectSandbox": [
  {
   "name": "timeout",
   "kind": "number",
   "help": "Counts anew from now, and may be shorter; kept when left out",
   "example": "300",
   "minimum": 60
  }
 ],
 "pauseSandbox": [
  {
   "name": "is_async",
   "kind": "boolean",
   "help": "Reply when the sandbox is `pausing`, instead of `paused`",
   "default": false
  }
 ],
 "resumeSandbox": [
  {
   "name": "is_async",
   "kind": "boolean",
   "help": "Reply when the sandbox is `resuming`, instead of `running`",
   "default": false
  },
  {
   "name": "best_effort_oss",
   "kind": "boolean",
   "help": "Resume even if mounts fail",
   "default": false
  },
  {
   "name": "object_storage",
   "kind": "group",
   "fields": [
    {
     "name": "remove_all",
     "kind": "boolean",
     "help": "Deletes all active mounts",
     "default": false
    },
    {
     "name": "disable_all",
     "kind": "boolean",
     "help": "Disables all active mounts; they keep their slots",
     "default": false
    },
    {
     "name": "mounts",
     "kind": "rows",
     "fields": [
      {
       "name": "uri",
       "kind": "text",
       "isRequired": true,
       "help": "`s3://<bucket>/<path>` or `oss://<bucket>/<path>`",
       "example": "s3://bucket/folder",
       "maxLength": 1024,
       "pattern": "^(s3|oss)://[a-z0-9]"
      },
      {
       "name": "region",
       "kind": "text",
       "help": "A region or an endpoint is required",
       "example": "eu",
       "maxLength": 64,
       "pattern": "^[A-Za-z0-9-]+$"
      },
      {
       "name": "endpoint",
       "kind": "text",
       "help": "URL of an S3-compatible server",
       "example": "https://s3.eu-central-1.amazonaws.com",
       "maxLength": 1024,
       "pattern": "^https?://"
      },
      {
       "name": "mount_point",
       "kind": "text",
       "isRequired": true,
       "help": "Absolute path in the sandbox; a missing folder is created",
       "example": "/mnt/data",
       "maxLength": 1024,
       "pattern": "^/[^\\s\\x00-\\x1f\\x7f-\\x9f]*$"
      },
      {
       "name": "access_key",
       "kind": "text",
       "isRequired": true,
       "example": "AKIAIOSFODNN7EXAMPLE",
       "minLength": 1,
       "maxLength": 1024,
       "pattern": "^[\\x21-\\x7e]+$"
      },
      {
       "name": "secret_key",
       "kind": "secret",
       "isRequired": true,
       "example": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
       "minLength": 1,
       "maxLength": 1024,
       "pattern": "^[\\x21-\\x7e]+$"
      },
      {
       "name": "session_token",
       "kind": "long_text",
       "help": "Makes the mount `short_lived`",
       "example": "FwoGZXIvYXdzEXAMPLE",
       "minLength": 1,
       "maxLength": 8192,
       "pattern": "^[\\x21-\\x7e]+$"
      },
      {
       "name": "delete",
       "kind": "choice",
       "options": [
        "false"
       ]
      },
      {
       "name": "disable",
       "kind": "choice",
       "options": [
        "false"
       ]
      }
     ],
     "help": "Changes by mount point: a mount to add or replace, or `delete: true`, or `disable: true`"
    }
   ],
   "help": "One of remove_all, disable_all and mounts; without it, the mounts do not change"
  }
 ],
 "restartSandbox": [
  {
   "name": "best_effort_oss",
   "kind": "boolean",
   "help": "Restart even if mounts fail or lack credentials",
   "default": false
  },
  {
   "name": "object_storage",
   "kind": "group",
   "fields": [
    {
     "name": "remove_all",
     "kind": "boolean",
     "help": "Deletes all active mounts",
     "default": false
    },
    {
     "name": "disable_all",
     "kind": "boolean",
     "help": "Disables all active mounts; they keep their slots",
     "default": false
    },
    {
     "name": "mounts",
     "kind": "rows",
     "fields": [
      {
       "name": "uri",
       "kind": "text",
       "isRequired": true,
       "help": "`s3://<bucket>/<path>` or `oss://<bucket>/<path>`",
       "example": "s3://bucket/folder",
       "maxLength": 1024,
       "pattern": "^(s3|oss)://[a-z0-9]"
      },
      {
       "name": "region",
       "kind": "text",
       "help": "A region or an endpoint is required",
       "example": "eu",
       "maxLength": 64,
       "pattern": "^[A-Za-z0-9-]+$"
      },
      {
       "name": "endpoint",
       "kind": "text",
       "help": "URL of an S3-compatible server",
       "example": "https://s3.eu-central-1.amazonaws.com",
       "maxLength": 1024,
       "pattern": "^https?://"
      },
      {
       "name": "mount_point",
       "kind": "text",
       "isRequired": true,
       "help": "Absolute path in the sandbox; a missing folder is created",
       "example": "/mnt/data",
       "maxLength": 1024,
       "pattern": "^/[^\\s\\x00-\\x1f\\x7f-\\x9f]*$"
      },
      {
       "name": "access_key",
       "kind": "text",
       "isRequired": true,
       "example": "AKIAIOSFODNN7EXAMPLE",
       "minLength": 1,
       "maxLength": 1024,
       "pattern": "^[\\x21-\\x7e]+$"
      },
      {
       "name": "secret_key",
       "kind": "secret",
       "isRequired": true,
       "example": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
       "minLength": 1,
       "maxLength": 1024,
       "pattern": "^[\\x21-\\x7e]+$"
      },
      {
       "name": "session_token",
       "kind": "long_text",
       "help": "Makes the mount `short_lived`",
       "example": "FwoGZXIvYXdzEXAMPLE",
       "minLength": 1,
       "maxLength": 8192,
       "pattern": "^[\\x21-\\x7e]+$"
      },
      {
       "name": "delete",
       "kind": "choice",
       "options": [
        "false"
       ]
      },
      {
       "name": "disable",
       "kind": "choice",
       "options": [
        "false"
       ]
      }
     ],
     "help": "Changes by mount point: a mount to add or replace, or `delete: true`, or `disable: true`"
    }
   ],
   "help": "As for a resume. All mounts end with the processes, so each needs credentials"
  }
 ],
 "switchSandboxProject": [
  {
   "name": "project_id",
   "kind": "text",
   "isRequired": true,
   "example": "prj-8d3fkq6w2mzx5v7r4t9ypjhn",
   "maxLength": 64
  }
 ],
 "createTemplateFromSandbox": [
  {
   "name": "name",
   "kind": "text",
   "isRequired": true,
   "example": "hello",
   "minLength": 4,
   "maxLength": 32,
   "pattern": "^[a-z][a-z0-9]*([-_][a-z0-9]+)*$"
  },
  {
   "name": "description",
   "kind": "long_text",
   "example": "Runs the tests of the main branch",
   "maxLength": 65536
  },
  {
   "name": "visibility",
   "kind": "choice",
   "options": [
    "private",
    "account_shared",
    "public"
   ],
   "help": "Only operators may set `public`"
  },
  {
   "name": "cpu_count",
   "kind": "number",
   "help": "Default: the sandbox's value",
   "example": "2",
   "minimum": 1
  },
  {
   "name": "memory_mb",
   "kind": "number",
   "help": "Default: the sandbox's value",
   "example": "512",
   "minimum": 128
  },
  {
   "name": "ports",
   "kind": "long_text",
   "help": "A JSON array of ports, as a string; added to those of the sandbox's template",
   "example": "[{\"port\": 8000, \"name\": \"web\"}]",
   "maxLength": 16384
  },
  {
   "name": "custom_command",
   "kind": "long_text",
   "help": "Default: the value of the sandbox's template",
   "example": "{\"Entrypoint\": [], \"Cmd\": [\"python3\", \"server.py\"]}",
   "maxLength": 16384
  },
  {
   "name": "ready_command",
   "kind": "long_text",
   "help": "Default: the value of the sandbox's template",
   "example": "{\"type\": \"exec\", \"command\": [\"test\", \"-f\", \"/tmp/ready\"]}",
   "maxLength": 16384
  }
 ],
 "addSandboxPort": [
  {
   "name": "port",
   "kind": "number",
   "isRequired": true,
   "example": "8000",
   "minimum": 1,
   "maximum": 65535
  },
  {
   "name": "name",
   "kind": "text",
   "isRequired": true,
   "example": "hello",
   "minLength": 1,
   "maxLength": 15,
   "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$"
  },
  {
   "name": "protocol",
   "kind": "choice",
   "options": [
    "TCP",
    "UDP",
    "WEBRTC"
   ],
   "default": "TCP"
  },
  {
   "name": "service_port",
   "kind": "number",
   "help": "The port on which the server in the sandbox listens; default: `port`",
   "example": "8000",
   "minimum": 1,
   "maximum": 65535
  },
  {
   "name": "is_protected",
   "kind": "boolean",
   "help": "Require the access token",
   "default": false
  }
 ],
 "startExec": [
  {
   "name": "command",
   "kind": "long_text",
   "isRequired": true,
   "help": "Run by `bash -c`, or by `sh -c` if the image has no bash",
   "example": "python3 hello.py",
   "minLength": 1,
   "maxLength": 131071
  },
  {
   "name": "cwd",
   "kind": "long_text",
   "example": "/workspace",
   "default": "/",
   "minLength": 1,
   "maxLength": 4096
  },
  {
   "name": "env",
   "kind": "map",
   "help": "Added to the sandbox's environment; replaces variables of the same name"
  },
  {
   "name": "stdin",
   "kind": "long_text",
   "help": "The standard input of the command; default empty",
   "example": "line\n",
   "maxLength": 131072
  },
  {
   "name": "wait",
   "kind": "boolean",
   "help": "Reply when the command has ended, with its output",
   "default": false
  }
 ],
 "batchDeleteSandboxes": [
  {
   "name": "sandbox_ids",
   "kind": "texts",
   "isRequired": true,
   "help": "`sbx-…`; a repeated id is handled only once"
  },
  {
   "name": "force",
   "kind": "boolean",
   "help": "Also delete sandboxes that run, start or resume",
   "default": false
  }
 ],
 "batchTerminateSandboxes": [
  {
   "name": "sandbox_ids",
   "kind": "texts",
   "isRequired": true,
   "help": "`sbx-…`; a repeated id is handled only once"
  },
  {
   "name": "force",
   "kind": "boolean",
   "help": "Also terminate sandboxes in a transitional status",
   "default": false
  }
 ],
 "batchPauseSandboxes": [
  {
   "name": "sandbox_ids",
   "kind": "texts",
   "isRequired": true,
   "help": "`sbx-…`; a repeated id is handled only once"
  }
 ],
 "batchResumeSandboxes": [
  {
   "name": "sandbox_ids",
   "kind": "texts",
   "isRequired": true,
   "help": "`sbx-…`; a repeated id is handled only once"
  }
 ],
 "createTemplate": [
  {
   "name": "name",
   "kind": "text",
   "isRequired": true,
   "example": "hello",
   "minLength": 4,
   "maxLength": 32,
   "pattern": "^[a-z][a-z0-9]*([-_][a-z0-9]+)*$"
  },
  {
   "name": "description",
   "kind": "long_text",
   "example": "Runs the tests of the main branch",
   "maxLength": 65536
  },
  {
   "name": "default_cpu_count",
   "kind": "number",
   "example": "2",
   "minimum": 1
  },
  {
   "name": "default_memory_mb",
   "kind": "number",
   "example": "512",
   "minimum": 128
  },
  {
   "name": "metadata",
   "kind": "long_text",
   "help": "JSON in text",
   "example": "{\"team\": \"blue\"}",
   "maxLength": 16384
  },
  {
   "name": "custom_command",
   "kind": "long_text",
   "help": "A command line, or JSON `{\"Entrypoint\": [], \"Cmd\": []}`",
   "example": "{\"Entrypoint\": [], \"Cmd\": [\"python3\", \"server.py\"]}",
   "maxLength": 16384
  },
  {
   "name": "start_image_command",
   "kind": "boolean",
   "help": "Sandboxes start the ENTRYPOINT and CMD of the image if there is no `custom_command`. By default true"
  },
  {
   "name": "ready_command",
   "kind": "long_text",
   "help": "JSON with `type` of `exec`, `httpGet` or `tcpSocket`",
   "example": "{\"type\": \"exec\", \"command\": [\"test\", \"-f\", \"/tmp/ready\"]}",
   "maxLength": 16384
  },
  {
   "name": "ports",
   "kind": "long_text",
   "help": "A JSON array of ports, as a string",
   "example": "[{\"port\": 8000, \"name\": \"web\"}]",
   "maxLength": 16384
  },
  {
   "name": "visibility",
   "kind": "choice",
   "options": [
    "private",
    "account_shared",
    "public"
   ],
   "help": "Only operators may set `public`"
  },
  {
   "name": "template_source",
   "kind": "choice",
   "options": [
    "platform_family",
    "custom"
   ]
  },
  {
   "name": "custom_image_source",
   "kind": "choice",
   "options": [
    "external",
    "imported"
   ],
   "help": "Required for `custom`"
  },
  {
   "name": "external_image_url",
   "kind": "text",
   "help": "Required for external images",
   "example": "docker.io/library/python:3.13",
   "maxLength": 512
  },
  {
   "name": "external_registry_username",
   "kind": "text",
   "example": "ada",
   "maxLength": 256,
   "pattern": "^[\\x20-\\x39\\x3b-\\x7e]*$"
  },
  {
   "name": "external_registry_password",
   "kind": "secret",
   "help": "Never returned; kept until the import has ended",
   "example": "correct-horse",
   "maxLength": 8192
  },
  {
   "name": "registry_image_url",
   "kind": "text",
   "help": "An image in the platform's registry",
   "example": "registry.example.com/templates/web:latest",
   "maxLength": 512
  },
  {
   "name": "registry_project",
   "kind": "text",
   "example": "templates",
   "maxLength": 128,
   "pattern": "^[a-z0-9]+([._-]+[a-z0-9]+)*$"
  },
  {
   "name": "registry_repository",
   "kind": "text",
   "example": "web",
   "maxLength": 128,
   "pattern": "^[a-z0-9]+([._-]+[a-z0-9]+)*(\\/[a-z0-9]+([._-]+[a-z0-9]+)*)*$"
  },
  {
   "name": "registry_tag",
   "kind": "text",
   "example": "latest",
   "maxLength": 128,
   "pattern": "^[A-Za-z0-9_][A-Za-z0-9._-]*$"
  },
  {
   "name": "base_template_id",
   "kind": "text",
   "help": "The id of a template with the same `template_source`",
   "example": "tpl-6m3z8r5tpydj2c7hnv4k9qwx",
   "maxLength": 64
  },
  {
   "name": "reset_ports",
   "kind": "boolean",
   "help": "Do not copy the unprotected ports of the base",
   "default": false
  }
 ],
 "updateTemplate": [
  {
   "name": "name",
   "kind": "text",
   "example": "hello",
   "minLength": 4,
   "maxLength": 32,
   "pattern": "^[a-z][a-z0-9]*([-_][a-z0-9]+)*$"
  },
  {
   "name": "description",
   "kind": "long_text",
   "example": "Runs the tests of the main branch",
   "maxLength": 65536
  },
  {
   "name": "default_cpu_count",
   "kind": "number",
   "example": "2",
   "minimum": 1
  },
  {
   "name": "default_memory_mb",
   "kind": "number",
   "example": "512",
   "minimum": 128
  },
  {
   "name": "metadata",
   "kind": "long_text",
   "help": "JSON in text",
   "example": "{\"team\": \"blue\"}",
   "maxLength": 16384
  },
  {
   "name": "custom_command",
   "kind": "long_text",
   "help": "A command line, or JSON `{\"Entrypoint\": [], \"Cmd\": []}`",
   "example": "{\"Entrypoint\": [], \"Cmd\": [\"python3\", \"server.py\"]}",
   "maxLength": 16384
  },
  {
   "name": "start_image_command",
   "kind": "boolean",
   "help": "Sandboxes start the ENTRYPOINT and CMD of the image if there is no `custom_command`. By default true"
  },
  {
   "name": "ready_command",
   "kind": "long_text",
   "help": "JSON with `type` of `exec`, `httpGet` or `tcpSocket`",
   "example": "{\"type\": \"exec\", \"command\": [\"test\", \"-f\", \"/tmp/ready\"]}",
   "maxLength": 16384
  },
  {
   "name": "ports",
   "kind": "long_text",
   "help": "A JSON array of ports, as a string",
   "example": "[{\"port\": 8000, \"name\": \"web\"}]",
   "maxLength": 16384
  },
  {
   "name": "external_image_url",
   "kind": "text",
   "example": "docker.io/library/python:3.13",
   "maxLength": 512
  },
  {
   "name": "external_registry_username",
   "kind": "text",
   "example": "ada",
   "maxLength": 256,
   "pattern": "^[\\x20-\\x39\\x3b-\\x7e]*$"
  },
  {
   "name": "external_registry_password",
   "kind": "secret",
   "example": "correct-horse",
   "maxLength": 8192
  },
  {
   "name": "registry_image_url",
   "kind": "text",
   "help": "An image in the platform's registry",
   "example": "registry.example.com/templates/web:latest",
   "maxLength": 512
  }
 ],
 "setTemplateDocument": [
  {
   "name": "template_document",
   "kind": "long_text",
   "isRequired": true,
   "help": "Markdown; blank text clears it",
   "example": "# Web\n\nServes port 8000.",
   "maxLength": 65535
  }
 ],
 "setTemplateStatus": [
  {
   "name": "status",
   "kind": "choice",
   "options": [
    "pending",
    "building",
    "pushing",
    "available",
    "failed"
   ],
   "isRequired": true
  },
  {
   "name": "error_message",
   "kind": "long_text",
   "help": "Kept with `failed`",
   "example": "The build failed",
   "maxLength": 8192
  },
  {
   "name": "push_logs",
   "kind": "long_text",
   "help": "Not kept",
   "example": "pushed sha256:4bc453b5…",
   "maxLength": 65536
  },
  {
   "name": "registry_image_url",
   "kind": "text",
   "help": "An image in the platform's registry",
   "example": "registry.example.com/templates/web:latest",
   "maxLength": 512
  }
 ],
 "validateTemplate": [
  {
   "name": "registry_image_url",
   "kind": "text",
   "isRequired": true,
   "help": "An image in the platform's registry",
   "example": "registry.example.com/templates/web:latest",
   "maxLength": 512
  }
 ],
 "shareTemplate": [
  {
   "name": "new_name",
   "kind": "text",
   "help": "A new name for the shared template",
   "example": "team-web-server",
   "minLength": 4,
   "maxLength": 32,
   "pattern": "^[a-z][a-z0-9]*([-_][a-z0-9]+)*$"
  }
 ],
 "importTemplate": [
  {
   "name": "name",
   "kind": "text",
   "isRequired": true,
   "example": "hello",
   "minLength": 4,
   "maxLength": 32,
   "pattern": "^[a-z][a-z0-9]*([-_][a-z0-9]+)*$"
  },
  {
   "name": "external_image_url",
   "kind": "text",
   "isRequired": true,
   "example": "docker.io/library/python:3.13",
   "maxLength": 512
  },
  {
   "name": "description",
   "kind": "long_text",
   "example": "Runs the tests of the main branch",
   "maxLength": 65536
  },
  {
   "name": "external_registry_username",
   "kind": "text",
   "example": "ada",
   "maxLength": 256,
   "pattern": "^[\\x20-\\x39\\x3b-\\x7e]*$"
  },
  {
   "name": "external_registry_password",
   "kind": "secret",
   "help": "Never returned; kept until the import has ended",
   "example": "correct-horse",
   "maxLength": 8192
  },
  {
   "name": "default_cpu_count",
   "kind": "number",
   "example": "2",
   "minimum": 1
  },
  {
   "name": "default_memory_mb",
   "kind": "number",
   "example": "512",
   "minimum": 128
  },
  {
   "name": "custom_command",
   "kind": "long_text",
   "help": "A command line, or JSON `{\"Entrypoint\": [], \"Cmd\": []}`",
   "example": "{\"Entrypoint\": [], \"Cmd\": [\"python3\", \"server.py\"]}",
   "maxLength": 16384
  },
  {
   "name": "start_image_command",
   "kind": "boolean",
   "help": "Sandboxes start the ENTRYPOINT and CMD of the image if there is no `custom_command`. By default true"
  },
  {
   "name": "ready_command",
   "kind": "long_text",
   "help": "JSON with `type` of `exec`, `httpGet` or `tcpSocket`",
   "example": "{\"type\": \"exec\", \"command\": [\"test\", \"-f\", \"/tmp/ready\"]}",
   "maxLength": 16384
  },
  {
   "name": "ports",
   "kind": "long_text",
   "help": "A JSON array of ports, as a string",
   "example": "[{\"port\": 8000, \"name\": \"web\"}]",
   "maxLength": 16384
  },
  {
   "name": "visibility",
   "kind": "choice",
   "options": [
    "private",
    "account_shared",
    "public"
   ],
   "help": "Only account root users may set `account_shared`, and only operators `public`"
  }
 ],
 "createProject": [
  {
   "name": "name",
   "kind": "text",
   "isRequired": true,
   "help": "Unique among your projects",
   "example": "hello",
   "minLength": 1,
   "maxLength": 64,
   "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$"
  },
  {
   "name": "description",
   "kind": "long_text",
   "example": "Runs the tests of the main branch",
   "maxLength": 65536
  },
  {
   "name": "is_default",
   "kind": "boolean",
   "help": "A user's first project is always the default",
   "default": false
  }
 ],
 "updateProject": [
  {
   "name": "name",
   "kind": "text",
   "help": "Unique among the owner's projects",
   "example": "hello",
   "minLength": 1,
   "maxLength": 64,
   "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$"
  },
  {
   "name": "description",
   "kind": "long_text",
   "example": "Runs the tests of the main branch",
   "maxLength": 65536
  },
  {
   "name": "is_default",
   "kind": "boolean",
   "help": "true takes it from the present default; false is refused on that one"
  }
 ],
 "createApiKey": [
  {
   "name": "name",
   "kind": "text",
   "isRequired": true,
   "help": "Unique among your keys",
   "example": "hello",
   "minLength": 1,
   "maxLength": 64,
   "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$"
  },
  {
   "name": "description",
   "kind": "long_text",
   "example": "Runs the tests of the main branch",
   "maxLength": 65536
  }
 ],
 "updateApiKey": [
  {
   "name": "name",
   "kind": "text",
   "help": "Unique among the owner's keys",
   "example": "hello",
   "minLength": 1,
   "maxLength": 64,
   "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$"
  },
  {
   "name": "description",
   "kind": "long_text",
   "example": "Runs the tests of the main branch",
   "maxLength": 65536
  }
 ],
 "setApiKeyStatus": [
  {
   "name": "is_active",
   "kind": "boolean",
   "isRequired": true
  }
 ],
 "bulkMarkNotificationsRead": [
  {
   "name": "notification_ids",
   "kind": "texts",
   "isRequired": true,
   "help": "1 to 100 ids"
  }
 ],
 "bulkMarkNotificationsUnread": [
  {
   "name": "notification_ids",
   "kind": "texts",
   "isRequired": true,
   "help": "1 to 100 ids"
  }
 ],
 "bulkDeleteNotifications": [
  {
   "name": "notification_ids",
   "kind": "texts",
   "isRequired": true,
   "help": "1 to 100 ids"
  }
 ],
 "signIn": [
  {
   "name": "email",
   "kind": "text",
   "isRequired": true,
   "example": "ada@example.com",
   "maxLength": 1024
  },
  {
   "name": "password",
   "kind": "secret",
   "isRequired": true,
   "example": "correct-horse",
   "maxLength": 16384
  }
 ],
 "startSession": [
  {
   "name": "email",
   "kind": "text",
   "isRequired": true,
   "example": "ada@example.com",
   "maxLength": 1024
  },
  {
   "name": "password",
   "kind": "secret",
   "isRequired": true,
   "example": "correct-horse",
   "maxLength": 16384
  }
 ],
 "forgotPassword": [
  {
   "name": "email",
   "kind": "text",
   "isRequired": true,
   "example": "ada@example.com",
   "maxLength": 1024
  }
 ],
 "resetPassword": [
  {
   "name": "token",
   "kind": "text",
   "isRequired": true,
   "help": "The token of the link in the mail",
   "example": "sT4vK9wq2Zx8mN1cB6yR3hJ7pL0dF5gA_eU-oI2kWxQ",
   "maxLength": 256
  },
  {
   "name": "new_password",
   "kind": "secret",
   "isRequired": true,
   "help": "At most 1024 bytes; none of the most common ones",
   "example": "seven-brown-otters-9",
   "minLength": 8,
   "maxLength": 1024
  }
 ],
 "updateProfile": [
  {
   "name": "display_name",
   "kind": "text",
   "example": "Ada",
   "minLength": 1,
   "maxLength": 64,
   "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$"
  },
  {
   "name": "description",
   "kind": "long_text",
   "example": "Runs the tests of the main branch",
   "maxLength": 65536
  },
  {
   "name": "role",
   "kind": "choice",
   "options": [
    "user",
    "admin"
   ],
   "help": "Only for account root users; only an admin can grant or revoke `admin`"
  },
  {
   "name": "status",
   "kind": "choice",
   "options": [
    "enabled",
    "disabled"
   ],
   "help": "Account root only"
  },
  {
   "name": "is_root_user",
   "kind": "boolean",
   "help": "Account root only; an account keeps an enabled root user"
  }
 ],
 "createUser": [
  {
   "name": "email",
   "kind": "text",
   "isRequired": true,
   "help": "ASCII before the `@`; unique, ignoring case",
   "example": "ada@example.com",
   "maxLength": 1024
  },
  {
   "name": "username",
   "kind": "text",
   "isRequired": true,
   "help": "Unique in the account, ignoring case",
   "example": "ada",
   "minLength": 1,
   "maxLength": 64,
   "pattern": "^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$"
  },
  {
   "name": "role",
   "kind": "choice",
   "options": [
    "user",
    "admin"
   ],
   "isRequired": true,
   "help": "Only an admin can make an admin"
  },
  {
   "name": "display_name",
   "kind": "text",
   "help": "Default: the user name",
   "example": "Ada",
   "minLength": 1,
   "maxLength": 64,
   "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$"
  },
  {
   "name": "status",
   "kind": "choice",
   "options": [
    "enabled",
    "disabled"
   ]
  },
  {
   "name": "description",
   "kind": "long_text",
   "example": "Runs the tests of the main branch",
   "maxLength": 65536
  },
  {
   "name": "is_root_user",
   "kind": "boolean",
   "help": "Whether the user administers the account",
   "default": false
  }
 ],
 "updateUser": [
  {
   "name": "display_name",
   "kind": "text",
   "example": "Ada",
   "minLength": 1,
   "maxLength": 64,
   "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$"
  },
  {
   "name": "description",
   "kind": "long_text",
   "example": "Runs the tests of the main branch",
   "maxLength": 65536
  },
  {
   "name": "role",
   "kind": "choice",
   "options": [
    "user",
    "admin"
   ],
   "help": "Only for account root users; only an admin can grant or revoke `admin`"
  },
  {
   "name": "status",
   "kind": "choice",
   "options": [
    "enabled",
    "disabled"
   ],
   "help": "Account root only"
  },
  {
   "name": "is_root_user",
   "kind": "boolean",
   "help": "Account root only; an account keeps an enabled root user"
  }
 ],
 "changePassword": [
  {
   "name": "current_password",
   "kind": "secret",
   "isRequired": true,
   "example": "correct-horse",
   "maxLength": 16384
  },
  {
   "name": "new_password",
   "kind": "secret",
   "isRequired": true,
   "help": "At most 1024 bytes; none of the most common ones",
   "example": "seven-brown-otters-9",
   "minLength": 8,
   "maxLength": 1024
  }
 ],
 "updateAccount": [
  {
   "name": "display_name",
   "kind": "text",
   "example": "Ada",
   "minLength": 1,
   "maxLength": 64,
   "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$"
  },
  {
   "name": "description",
   "kind": "long_text",
   "example": "Runs the tests of the main branch",
   "maxLength": 65536
  }
 ],
 "requestEmailChange": [
  {
   "name": "current_email",
   "kind": "text",
   "isRequired": true,
   "help": "Of the account",
   "example": "ada@example.com",
   "maxLength": 1024
  },
  {
   "name": "new_email",
   "kind": "text",
   "isRequired": true,
   "example": "engines@example.com",
   "maxLength": 1024
  }
 ],
 "confirmEmailChange": [
  {
   "name": "token",
   "kind": "text",
   "isRequired": true,
   "help": "The token of the link in the mail",
   "example": "sT4vK9wq2Zx8mN1cB6yR3hJ7pL0dF5gA_eU-oI2kWxQ",
   "maxLength": 256
  }
 ],
 "setAccountStatus": [
  {
   "name": "status",
   "kind": "choice",
   "options": [
    "active",
    "suspended"
   ],
   "isRequired": true
  }
 ],
 "createQuotaAllocation": [
  {
   "name": "user_id",
   "kind": "text",
   "help": "A user of the account; without it, the quota limits the account, all its users together",
   "example": "usr-2c7hnv4k9qwx6m3z8r5tpydj",
   "maxLength": 64
  },
  {
   "name": "cpu_seconds_monthly",
   "kind": "number",
   "minimum": 0
  },
  {
   "name": "ram_gb_seconds",
   "kind": "number",
   "minimum": 0
  },
  {
   "name": "sandbox_storage_gb_seconds",
   "kind": "number",
   "minimum": 0
  },
  {
   "name": "traffic_gb_seconds",
   "kind": "number",
   "minimum": 0
  },
  {
   "name": "template_storage_gb",
   "kind": "number",
   "minimum": 0
  },
  {
   "name": "concurrent_sandboxes",
   "kind": "number",
   "help": "Null and 0: not limited by this quota",
   "minimum": 0
  }
 ],
 "updateQuotaAllocation": [
  {
   "name": "cpu_seconds_monthly",
   "kind": "number",
   "minimum": 0
  },
  {
   "name": "ram_gb_seconds",
   "kind": "number",
   "minimum": 0
  },
  {
   "name": "sandbox_storage_gb_seconds",
   "kind": "number",
   "minimum": 0
  },
  {
   "name": "traffic_gb_seconds",
   "kind": "number",
   "minimum": 0
  },
  {
   "name": "template_storage_gb",
   "kind": "number",
   "minimum": 0
  },
  {
   "name": "concurrent_sandboxes",
   "kind": "number",
   "help": "Null and 0: not limited by this quota",
   "minimum": 0
  }
 ],
 "reviewQuotaRequest": [
  {
   "name": "action",
   "kind": "choice",
   "options": [
    "approve",
    "deny"
   ],
   "isRequired": true
  },
  {
   "name": "review_notes",
   "kind": "text",
   "example": "Enough for the release",
   "maxLength": 2000
  }
 ],
 "createQuotaRequest": [
  {
   "name": "cpu_seconds_monthly",
   "kind": "number",
   "isRequired": true,
   "minimum": 0
  },
  {
   "name": "ram_gb_seconds",
   "kind": "number",
   "minimum": 0
  },
  {
   "name": "sandbox_storage_gb_seconds",
   "kind": "number",
   "minimum": 0
  },
  {
   "name": "traffic_gb_seconds",
   "kind": "number",
   "minimum": 0
  },
  {
   "name": "template_storage_gb",
   "kind": "number",
   "isRequired": true,
   "minimum": 0
  },
  {
   "name": "concurrent_sandboxes",
   "kind": "number",
   "help": "Null and 0: not limited by this quota",
   "minimum": 0
  },
  {
   "name": "reason",
   "kind": "text",
   "isRequired": true,
   "example": "user_requested",
   "minLength": 1,
   "maxLength": 2000
  }
 ],
 "updateQuotaRequest": [
  {
   "name": "cpu_seconds_monthly",
   "kind": "number",
   "isRequired": true,
   "minimum": 0
  },
  {
   "name": "ram_gb_seconds",
   "kind": "number",
   "minimum": 0
  },
  {
   "name": "sandbox_storage_gb_seconds",
   "kind": "number",
   "minimum": 0
  },
  {
   "name": "traffic_gb_seconds",
   "kind": "number",
   "minimum": 0
  },
  {
   "name": "template_storage_gb",
   "kind": "number",
   "isRequired": true,
   "minimum": 0
  },
  {
   "name": "concurrent_sandboxes",
   "kind": "number",
   "help": "Null and 0: not limited by this quota",
   "minimum": 0
  },
  {
   "name": "reason",
   "kind": "text",
   "isRequired": true,
   "example": "user_requested",
   "minLength": 1,
   "maxLength": 2000
  }
 ],
 "createWebhook": [
  {
   "name": "url",
   "kind": "text",
   "isRequired": true,
   "help": "`http://` or `https://`",
   "example": "https://example.com/hooks",
   "minLength": 1,
   "maxLength": 2048
  },
  {
   "name": "event_types",
   "kind": "texts",
   "isRequired": true,
   "help": "Types, families such as `sandbox.*`, or `*`; see `GET /v1/webhooks/event-types`"
  },
  {
   "name": "description",
   "kind": "long_text",
   "example": "Runs the tests of the main branch",
   "maxLength": 65536
  },
  {
   "name": "scope",
   "kind": "choice",
   "options": [
    "user",
    "account"
   ],
   "help": "`user`: events of your own objects; `account`: all of the account, for root users"
  },
  {
   "name": "timeout_seconds",
   "kind": "number",
   "help": "For one whole attempt, including the reply",
   "minimum": 5,
   "maximum": 300
  },
  {
   "name": "max_retries",
   "kind": "number",
   "minimum": 0,
   "maximum": 10
  },
  {
   "name": "secret",
   "kind": "secret",
   "help": "Adds a `v1` signature (HMAC) to requests; stored encrypted and never returned",
   "example": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
   "maxLength": 94,
   "pattern": "^whsec_[A-Za-z0-9+/=]{32,88}$"
  }
 ],
 "updateWebhook": [
  {
   "name": "url",
   "kind": "text",
   "help": "`http://` or `https://`",
   "example": "https://example.com/hooks",
   "minLength": 1,
   "maxLength": 2048
  },
  {
   "name": "event_types",
   "kind": "texts",
   "help": "Types, families such as `sandbox.*`, or `*`; see `GET /v1/webhooks/event-types`"
  },
  {
   "name": "is_active",
   "kind": "boolean"
  },
  {
   "name": "description",
   "kind": "long_text",
   "example": "Runs the tests of the main branch",
   "maxLength": 65536
  },
  {
   "name": "scope",
   "kind": "choice",
   "options": [
    "user",
    "account"
   ],
   "help": "`user`: events of your own objects; `account`: all of the account, for root users"
  },
  {
   "name": "timeout_seconds",
   "kind": "number",
   "help": "For one whole attempt, including the reply",
   "minimum": 5,
   "maximum": 300
  },
  {
   "name": "max_retries",
   "kind": "number",
   "minimum": 0,
   "maximum": 10
  },
  {
   "name": "secret",
   "kind": "secret",
   "help": "Adds a `v1` signature (HMAC) to requests; stored encrypted and never returned",
   "example": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
   "maxLength": 94,
   "pattern": "^whsec_[A-Za-z0-9+/=]{32,88}$"
  }
 ],
 "rollWebhookSecret": [
  {
   "name": "secret",
   "kind": "secret",
   "help": "The new secret; required if the webhook has one",
   "example": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
   "maxLength": 94,
   "pattern": "^whsec_[A-Za-z0-9+/=]{32,88}$"
  }
 ],
 "changeSubscription": [
  {
   "name": "plan_name",
   "kind": "text",
   "isRequired": true,
   "example": "hobby",
   "minLength": 1,
   "maxLength": 100
  }
 ],
 "changeCredits": [
  {
   "name": "action",
   "kind": "choice",
   "options": [
    "grant",
    "refund"
   ],
   "isRequired": true
  },
  {
   "name": "amount",
   "kind": "number",
   "isRequired": true,
   "maximum": 1000000000
  },
  {
   "name": "description",
   "kind": "text",
   "example": "Runs the tests of the main branch",
   "maxLength": 500
  }
 ],
 "createBudget": [
  {
   "name": "budget_amount",
   "kind": "number",
   "isRequired": true,
   "maximum": 1000000000
  },
  {
   "name": "alert_thresholds",
   "kind": "rows",
   "fields": [
    {
     "name": "percent",
     "kind": "number",
     "isRequired": true,
     "help": "Of the amount",
     "minimum": 1,
     "maximum": 100
    },
    {
     "name": "enabled",
     "kind": "boolean",
     "default": true
    }
   ],
   "help": "50, 80 and 100 % by default"
  },
  {
   "name": "limit_type",
   "kind": "choice",
   "options": [
    "soft",
    "hard"
   ]
  },
  {
   "name": "notification_emails",
   "kind": "texts",
   "help": "Addresses that get mails in addition to the account's own address"
  }
 ],
 "updateBudget": [
  {
   "name": "budget_amount",
   "kind": "number",
   "maximum": 1000000000
  },
  {
   "name": "alert_thresholds",
   "kind": "rows",
   "fields": [
    {
     "name": "percent",
     "kind": "number",
     "isRequired": true,
     "help": "Of the amount",
     "minimum": 1,
     "maximum": 100
    },
    {
     "name": "enabled",
     "kind": "boolean",
     "default": true
    }
   ]
  },
  {
   "name": "limit_type",
   "kind": "choice",
   "options": [
    "soft",
    "hard"
   ]
  },
  {
   "name": "notification_emails",
   "kind": "texts",
   "help": "Addresses that get mails in addition to the account's own address"
  },
  {
   "name": "is_active",
   "kind": "boolean"
  }
 ],
 "checkPaymentMethod": [
  {
   "name": "setup_intent_id",
   "kind": "text",
   "isRequired": true,
   "example": "seti_1QexampleK2eZvKYlo2C",
   "minLength": 1,
   "maxLength": 255
  }
 ],
 "setDefaultPaymentMethod": [
  {
   "name": "payment_method_id",
   "kind": "text",
   "isRequired": true,
   "example": "pm_1QexampleK2eZvKYlo2C",
   "minLength": 1,
   "maxLength": 255
  }
 ],
 "refundPaymentIntent": [
  {
   "name": "amount",
   "kind": "number",
   "help": "Default: the rest of the charge",
   "maximum": 1000000000
  },
  {
   "name": "description",
   "kind": "text",
   "example": "Runs the tests of the main branch",
   "maxLength": 500
  }
 ]
};
